"""The kernel driver and the firmware: installed, loaded, complete, and made for each other."""

from ascend_doctor.checks.npu.npus import visible_npus
from ascend_doctor.facts import Driver, Host, require_known
from ascend_doctor.judging import Finding, Findings, NotApplicable, Remedy, Texts, Unknown, spans
from ascend_doctor.judging.chip import ascend, container
from ascend_doctor.judging.closed import odd_lines, require_open
from ascend_doctor.judging.judge import Case, warning
from ascend_doctor.judging.version_compare import is_in_range
from ascend_doctor.matrix.versions import VersionError, key

TEXTS = Texts("driver")

_SOURCE = "hicann/driver@ef377e95"
_RESTART = Remedy(
    summary="Restart the host, so that driver and firmware are loaded anew",
    commands=("sudo reboot",),
)


def _on_host(case: Case) -> Driver:
    ascend(case)
    if container(case) is not None:
        raise NotApplicable("the driver belongs to the host, not to this container")
    return case.need(Driver)


@TEXTS.check("driver-installed")
def driver_installed(case: Case) -> Findings:
    driver = _on_host(case)
    yield from odd_lines(case, *(f"/usr/local/Ascend/{part}/" for part in ("driver", "firmware")))
    if driver.version is not None:
        return
    if driver.path is not None:
        raise Unknown(f"{driver.path}/version.info cannot be read")
    require_open(case, "/usr/local/Ascend/driver")
    cards = len(driver.pci or ())
    yield TEXTS.finding(
        "not-installed",
        observed=f"{cards} NPUs on the PCI bus, no driver" if cards else "no driver/version.info",
        refs=(_SOURCE,),
    )


@TEXTS.check("driver-loaded")
def driver_loaded(case: Case) -> Findings:
    driver = _on_host(case)
    require_open(case, "/proc/modules")
    if driver.devices or any(node.kind == "vdevice" for node in driver.nodes):
        if driver.modules == ():
            yield TEXTS.finding("no-modules", refs=(_SOURCE,))
        if stuck := [name for name in driver.modules or () if " " in name]:
            yield TEXTS.finding("stuck", stuck=", ".join(stuck))
        return
    if driver.version is None and driver.path is None:
        raise NotApplicable("the driver is not installed")
    loaded = driver.modules
    modules = "not known" if loaded is None else ", ".join(loaded) or "none of the driver"
    yield TEXTS.finding(
        "no-device-files",
        observed=f"no /dev/davinciN; kernel {case.need(Host).kernel}, modules: {modules}; "
        "NPUs on the PCI bus: " + ("not known" if driver.pci is None else str(len(driver.pci))),
        refs=(_SOURCE,),
    )


@TEXTS.check("driver-complete")
def driver_complete(case: Case) -> Findings:
    driver = _on_host(case)
    info = driver.install_info
    yield from odd_lines(case, "/etc/ascend_install.info")
    notes = (
        [text for text in case.facts.npus.warnings if "complete" in text] if case.facts.npus else []
    )
    if info is not None and info.closed:
        raise Unknown("/etc/ascend_install.info may not be read by this user")
    if notes:
        yield _incomplete(f"npu-smi: {notes[0]}")
    elif info is not None and info.driver_path and driver.path is None:
        require_open(case, info.driver_path)
        yield _incomplete(f"there is no driver in {info.driver_path}, which the file names")
    elif info is not None and info.driver_status not in {None, "complete"}:
        yield _incomplete(f"Driver_Install_Status={info.driver_status!r}")
    elif (info is None or info.driver_status is None) and driver.version is not None:
        yield _incomplete(
            "there is no /etc/ascend_install.info"
            if info is None
            else "/etc/ascend_install.info is a folder"
            if info.is_directory
            else "/etc/ascend_install.info has no Driver_Install_Status"
        )


def _incomplete(observed: str) -> Finding:
    return TEXTS.finding("incomplete", observed=observed, refs=(f"{_SOURCE}:npucli/npu_smi.c",))


@TEXTS.check(
    "driver-firmware",
    caused_by=("container-devices", "container-driver", "driver-loaded", "device-access"),
)
def driver_firmware(case: Case) -> Findings:
    ascend(case)
    driver = case.need(Driver)
    boards = case.facts.npus.boards if case.facts.npus else ()
    refused = [board.npu_id for board in boards if board.compatibility == "NOK"]
    if refused:
        yield TEXTS.finding(
            "refused",
            observed=f"Compatibility: NOK on NPU {', '.join(map(str, refused))}",
            remedy=_pair(),
            refs=(_SOURCE,),
        )
    # Without a firmware file, the boards show which firmware runs.
    running = {board.firmware_version for board in boards if board.firmware_version}
    firmware = (driver.firmware_version,) if driver.firmware_version else tuple(sorted(running))
    ranges = [
        *(("firmware", version, driver.compatible_firmware) for version in firmware),
        *(
            ("driver", require_known(driver.version, "which driver is on disk"), allowed)
            for allowed in (driver.compatible_drivers,)
            if allowed
        ),
    ]
    for what, version, allowed in ranges:
        if allowed is not None and not refused and not is_in_range(version, allowed, "ascend"):
            partner = "driver" if what == "firmware" else "firmware"
            other = driver.version if what == "firmware" else driver.firmware_version
            yield TEXTS.finding(
                "other-pair",
                observed=f"{what} {version}, {partner} {other or 'of unknown version'}",
                remedy=_pair(),
                refs=(_SOURCE,),
                allowed=allowed,
                partner=partner,
                what=what,
            )
    if not firmware or (not any(allowed for _, _, allowed in ranges) and not boards):
        raise Unknown("driver or firmware version could not be told")
    yield from _cards_without_verdict(case)


def _cards_without_verdict(case: Case) -> Findings:
    npus = case.facts.npus
    if npus is None:
        return
    verdicts = {
        board.npu_id: board.compatibility for board in npus.boards if board.chip_name is None
    }
    silent: dict[str, list[int]] = {}
    for card in dict.fromkeys(device.npu_id for device in npus.devices):
        word = verdicts.get(card) or "no answer"
        if word not in {"OK", "NOK"}:
            silent.setdefault(word, []).append(card)
    for word, cards in silent.items():
        yield TEXTS.finding(
            "card-other",
            title=f"npu-smi does not say whether driver and firmware fit on NPU {spans(cards)}",
            word=word,
        )


def _pair() -> Remedy:
    return Remedy(
        summary="Have the administrator install firmware and driver of one release, firmware "
        "first, and restart the host",
        commands=("npu-smi info -t board -i 0",),
    )


@TEXTS.check("driver-running")
def driver_running(case: Case) -> Findings:
    ascend(case)
    driver, npus = case.need(Driver), visible_npus(case)
    running = require_known(npus.driver_version, "which driver runs")
    versions = [text for text in (driver.version, driver.package_version) if text]
    if not versions:
        raise Unknown("could not tell which driver is on disk")
    if any(_same(running, version) for version in versions):
        return
    inside = container(case) is not None
    yield warning(
        f"Driver {running} runs, and {versions[0]} is on disk",
        observed=f"npu-smi: {running}; {driver.path}/version.info: {', '.join(versions)}",
        required="one release",
        because="The container has the driver folder of another host or its own."
        if inside
        else "The driver was changed and the host was not restarted.",
        remedy=Remedy(summary="Mount the host's own /usr/local/Ascend/driver into the container")
        if inside
        else _RESTART,
        refs=(_SOURCE,),
    )


def _same(version: str, other: str) -> bool:
    """Equal, or equal but for a build that only one of them names (24.1.rc1.b030)."""
    if version.startswith(f"{other}.") or other.startswith(f"{version}."):
        return True
    try:
        return key("ascend", version) == key("ascend", other)
    except VersionError:
        return version == other
