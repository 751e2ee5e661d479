"""What a gate was told to expect of the machine, against what is there."""

from collections.abc import Callable

from ascend_doctor.checks.npu import soc
from ascend_doctor.errors import NeedsRoot, NotApplicable, Unknown
from ascend_doctor.facts import Cann, Driver, Hccn, HccnDevice
from ascend_doctor.findings import Remedy, quantity, spans
from ascend_doctor.judging import Case, Finding, Findings, check, error, matrix_fit, note, unknown
from ascend_doctor.judging.chip import lacks_root
from ascend_doctor.judging.expectations import KEYS, LINKS, NPUS, SOC, VERSIONS, Expectation
from ascend_doctor.judging.packages import family
from ascend_doctor.judging.version_compare import is_in_range

# What is there, in words; and whether that is as expected.
_Seen = tuple[str, bool]
_See = Callable[[Case, Expectation], _Seen]
_CONTRACT = "A gate was told so: --expect, its preset, or expect: in ascend-doctor.yaml."


def _expects(identity: str, title: str, remedy: Remedy) -> Callable[[_See], _See]:
    """The check of what one kind of expectation sees; its docstring explains the check."""

    def register(see: _See) -> _See:
        def judge(case: Case) -> Findings:
            mine = [expected for expected in case.expected if expected.check == identity]
            if not mine:
                raise NotApplicable("nothing of the kind is expected (see --expect)")
            for expectation in mine:
                yield _compare(case, expectation, see, remedy)

        check(identity, title, explain=see.__doc__ or "")(judge)
        return see

    return register


def _compare(case: Case, expectation: Expectation, see: _See, remedy: Remedy) -> Finding:
    try:
        observed, met = see(case, expectation)
    except Unknown as reason:
        return unknown(
            f"Could not tell whether {expectation.text}",
            observed=str(reason),
            because=_CONTRACT,
            needs="root" if isinstance(reason, NeedsRoot) else "",
        )
    if met:
        return note(f"As expected, {expectation.text}", observed=observed)
    return error(
        f"Expected {expectation.text}, found {observed}",
        observed=observed,
        required=expectation.text,
        because=_CONTRACT,
        remedy=remedy,
    )


@_expects(
    NPUS,
    "The number of NPUs is as expected",
    Remedy(
        summary="See which cards the bus and the driver show. If this machine is to have none, "
        "say so with --expect npus=0",
        commands=(
            "ls /dev/davinci[0-9]*",
            "lspci -d 19e5: | grep -i accelerators",
            "npu-smi info -l",
        ),
    ),
)
def _npus(case: Case, expectation: Expectation) -> _Seen:
    """`--expect npus=8` says how many NPUs a job can use here; `npus>=1` is what presets expect.

    An NPU counts that has a device file and is in the table of npu-smi, where there is one; on A3
    each of a card's two dies counts. Where npu-smi fails, or its table was cut, the number lies
    between what it showed and the number of device files, and the check says that it could not
    tell unless the answer is the same for all of them. `npus=0` says that none is meant to be here,
    `npus>=0` that it does not matter.
    """
    low, high, text = _count(case)
    numbers = (*range(low, min(high, low + 99)), high)
    results = {is_in_range(str(number), expectation.versions) for number in numbers}
    if len(results) > 1:
        raise Unknown(f"{text}; so between {low} and {high}")
    return text, results.pop()


def _count(case: Case) -> tuple[int, int, str]:
    """The least and the largest number of usable NPUs, and the source."""
    npus = case.facts.npus
    driver = case.need(Driver)
    files = [node for node in driver.nodes if node.kind != "manager"]
    if not files:
        on_bus = len(driver.pci or ())
        shown = "no /dev/davinciN" + (f", {on_bus} on the PCI bus" if on_bus else "")
        return 0, 0, f"no NPU ({shown})" if driver.present else "no NPU"
    text = quantity(len(files), "NPU")
    if npus is None:
        return 0, len(files), f"{quantity(len(files), 'device file')}, npu-smi was not asked"
    if not npus.tool:
        return len(files), len(files), f"{text} by device files; npu-smi is not there"
    if not npus.devices or not npus.complete:
        why = "its table was cut" if npus.devices else "it shows no table"
        low = min(len(npus.devices), len(files))
        return low, len(files), f"{text} by device files, {low} by npu-smi, for {why}"
    least = min(len(files), len(npus.devices))
    if len(files) == len(npus.devices):
        return least, least, text
    both = f"{len(files)} device files, {len(npus.devices)} in npu-smi's table"
    return least, least, f"{quantity(least, 'NPU')} ({both})"


@_expects(
    SOC,
    "The chip is as expected",
    Remedy(summary="See what npu-smi shows", commands=("npu-smi info",)),
)
def _soc(case: Case, expectation: Expectation) -> _Seen:
    """`--expect soc=Ascend910B3` names the chip, `soc=ascend910b` a family of chips.

    The word Ascend may be left out. Every NPU of the machine has to be of that chip or family.
    `ascend910b` is Atlas A2, `ascend910_93` Atlas A3, `ascend950` the 950; the chip Ascend910B of
    the first generation is `ascend910`.
    """
    positive = expectation.operator == "="
    value = "ascend" + expectation.value.lower().removeprefix("ascend")
    try:
        chips = family(case)
        if value in {family.id for family in case.catalog.families}:
            return chips.title, (chips.id == value) == positive
        names = soc.names(case)
    except NotApplicable as reason:
        return str(reason), False
    same = {name.lower() == value for name in names}
    return ", ".join(names), same == {positive}


@_expects(
    LINKS,
    "The NPUs' network links are up, as expected",
    Remedy(
        summary="Check cable, optical module and switch port of these devices, as root",
        commands=("/usr/local/Ascend/driver/tools/hccn_tool -i 0 -link -g",),
    ),
)
def _links(case: Case, _: Expectation) -> _Seen:
    """`--expect links=up` asks that the network port of every NPU is up.

    hccn_tool tells, and it is for root. Ports that a 950 server does not wire are never up, so of
    those one port a device is enough. Jobs of one server, and those inside one A3 SuperPoD, use
    HCCS and do not need these links.
    """
    driver, hccn = case.need(Driver), case.need(Hccn)
    if not driver.devices:
        return "no NPU", False
    states = {hccn_device.device: _up(hccn_device) for hccn_device in hccn.devices}
    down = [device for device, up in states.items() if up is False]
    if down:
        return f"not up: device {spans(down)}", False
    count = sum(up is True for up in states.values())
    if count < len(driver.devices):
        refused = hccn.error is not None and hccn.error.kind == "permission"
        missing = f"hccn_tool told of {count} of {len(driver.devices)} devices"
        raise (NeedsRoot if refused and lacks_root(case) else Unknown)(missing)
    return f"{quantity(count, 'link')} up", True


def _up(device: HccnDevice) -> bool | None:
    if device.ports:
        known = [port.link == "UP" for port in device.ports if port.link]
        return any(known) if known else None
    return device.link == "UP" if device.link else None


@_expects(
    VERSIONS,
    "Versions are as expected",
    Remedy(
        summary="Install what the gate expects, or change the expectation; the rows of the "
        "matrix say what goes together",
        commands=("ascend-doctor matrix list",),
    ),
)
def _version(case: Case, expectation: Expectation) -> _Seen:
    """`--expect cann>=8.5.0` is about driver, firmware, CANN, NNAL, Python and packages.

    Quote it, for the shell takes `>` for itself: `--expect 'cann>=8.5.0'`. CANN is the one that
    the environment uses, Megatron the megatron.core that would be imported, and MindSpeed goes by
    its branch or tag (`mindspeed=core_r0.15.3`), for many branches report one version. Ascend
    versions know lines: `cann=8.5.X`. What is not installed is not as expected.
    """
    try:
        present = _present(case, expectation.key)
    except NotApplicable as reason:
        return str(reason), False
    scheme = KEYS[expectation.key].scheme
    if expectation.key == "driver" and _has_own_numbers(case):
        scheme = "unordered"
    return f"{expectation.key} {present}", is_in_range(present, expectation.versions, scheme)


def _has_own_numbers(case: Case) -> bool:
    """Whether the drivers of these chips have separate, unordered numbers."""
    try:
        return not family(case).ordered_drivers
    except (Unknown, NotApplicable):
        return False


def _present(case: Case, key: str) -> str:
    """The present version. Raises Unknown and NotApplicable."""
    if key == "firmware":
        driver = case.need(Driver)
        if driver.firmware_version is None:
            npus = case.facts.npus
            firmware = {board.firmware_version for board in npus.boards} - {None} if npus else set()
            if len(firmware) != 1:
                raise Unknown("the firmware's version could not be told")
            return str(firmware.pop())
        return driver.firmware_version
    if key == "nnal":
        versions = {nnal.version for nnal in case.need(Cann).nnal}
        if not versions:
            raise NotApplicable("NNAL is not installed")
        if len(versions) > 1 or None in versions:
            raise Unknown("which release of NNAL is in use could not be told")
        return str(versions.pop())
    return matrix_fit.present(case, KEYS[key].component)
