"""Containers: the devices, libraries and files of the host that must be handed in."""

import shlex

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Container, Driver, Environment, Host, require_known
from ascend_doctor.judging import Case, Findings, Texts, error, quantity, spans, warning
from ascend_doctor.judging.chip import container
from ascend_doctor.judging.container_fix import REF, managers, mount_again, pci_devices, start_again
from ascend_doctor.judging.packages import npu_only

TEXTS = Texts("container")

_RUNTIME = "Ascend/mind-cluster@22bb3d98:docs/en/scheduling"
_HAL = "https://github.com/vllm-project/vllm-ascend/issues/1440"
_DRIVER = "/usr/local/Ascend/driver"
_NO_DEVICE = "no NPU under /dev"


def _inside(case: Case) -> Container:
    npu_only(case)
    inside = case.need(Host).container
    if inside is None:
        raise NotApplicable("this is no container")
    driver, npus, cann = case.facts.driver, case.facts.npus, case.facts.cann
    traces = (driver and driver.present, npus and npus.tool, cann and cann.installs)
    if not any(traces) and not inside.ascend_docker_runtime:
        raise NotApplicable("neither this container nor its image has to do with NPUs")
    return inside


@TEXTS.check("container-devices")
def _container_devices(case: Case) -> Findings:
    inside = _inside(case)
    driver = case.need(Driver)
    present = {node.path for node in driver.nodes}
    if driver.devices:
        lacking = [path for path in managers(case) if path not in present]
        if lacking:
            yield TEXTS.finding(
                "every-process",
                title=f"The container has devices, but not {', '.join(lacking)}",
                observed=f"/dev/davinci{spans(device.number or 0 for device in driver.devices)}",
                required=", ".join(managers(case)),
                remedy=start_again(case, "Start the container again with them"),
                refs=(REF,),
            )
        return
    if any(node.kind == "vdevice" for node in driver.nodes):
        return
    values = case.facts.environment.variables if case.facts.environment else {}
    asked = values.get("ASCEND_VISIBLE_DEVICES")
    count = pci_devices(case)
    there = f"the host has {count} devices" if count else ""
    variable = f"ASCEND_VISIBLE_DEVICES={asked!r}" if asked is not None else ""
    yield (error if driver.present else warning)(
        "The container was given no NPU",
        observed="; ".join(filter(None, (_NO_DEVICE, there, variable))),
        required=f"/dev/davinciN and {', '.join(managers(case))}",
        because=_why_none(inside, asked),
        remedy=start_again(case, "Start the container again with the devices"),
        refs=(REF, _RUNTIME),
    )


def _why_none(inside: Container, asked: str | None) -> str:
    if inside.ascend_docker_runtime:
        return "Ascend Docker Runtime mounts what ASCEND_VISIBLE_DEVICES names; empty is nothing."
    if asked:
        return "ASCEND_VISIBLE_DEVICES is read by Ascend Docker Runtime only, which was not used."
    return "Without device files there is no NPU for npu-smi, HCCL and torch."


@TEXTS.check("container-driver")
def _container_driver(case: Case) -> Findings:
    inside = _inside(case)
    driver = case.need(Driver)
    lacking = [library.name for library in driver.libraries if library.path is None]
    if "libascend_hal.so" not in lacking:
        return
    if driver.path is not None:
        yield TEXTS.finding(
            "not-searched",
            observed=f"not found: {', '.join(lacking)}; {driver.path} exists",
            commands=(_search(driver.path),),
            refs=(_HAL,),
        )
        return
    because = "libascend_hal.so is what opens a device."
    if inside.ascend_docker_runtime:
        because += " With ASCEND_RUNTIME_OPTIONS=NODRV the runtime leaves it out."
    yield (error if driver.present else warning)(
        "The driver's libraries are not in the container",
        observed=f"not found: {', '.join(lacking)}",
        required="the host's /usr/local/Ascend/driver/lib64, mounted at the same place",
        because=because,
        remedy=mount_again(case, "Start the container again with the driver mounted"),
        refs=(_HAL,),
    )


def _search(path: str) -> str:
    folders = (f"{path}/lib64", f"{path}/lib64/common", f"{path}/lib64/driver")
    before = '"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
    return f"export LD_LIBRARY_PATH={shlex.quote(':'.join(folders))}{before}"


@TEXTS.check("container-files")
def _container_files(case: Case) -> Findings:
    inside = _inside(case)
    driver = case.need(Driver)
    if not driver.nodes:
        raise NotApplicable("the container has no device")
    lacking = []
    if case.facts.npus is not None and not case.facts.npus.tool:
        lacking.append("npu-smi")
    if driver.version is None:
        lacking.append("/usr/local/Ascend/driver/version.info")
    if driver.install_info is None:
        lacking.append("/etc/ascend_install.info")
    if case.facts.hccn is not None and case.facts.hccn.conf is None:
        lacking.append("/etc/hccn.conf")
    if driver.install_info is not None and driver.install_info.is_directory:
        yield TEXTS.finding("is-folder", refs=(REF,))
    if lacking:
        yield TEXTS.finding(
            "health-versions",
            title=f"The container lacks {', '.join(lacking)}",
            observed=f"not there: {', '.join(lacking)}"
            + ("; Ascend Docker Runtime was used" if inside.ascend_docker_runtime else ""),
            remedy=start_again(case, "Mount them when you start the container"),
            refs=(REF, _RUNTIME),
        )


@TEXTS.check("container-privileges")
def _container_privileges(case: Case) -> Findings:
    inside = _inside(case)
    driver = case.need(Driver)
    if not driver.devices:
        return
    if require_known(inside.privileged, "whether it is privileged"):
        yield TEXTS.finding("privileged", refs=(REF,), seen=quantity(len(driver.devices), "device"))


@TEXTS.check("docker-runtime")
def _docker_runtime(case: Case) -> Findings:
    npu_only(case)
    if container(case) is not None:
        environment = case.need(Environment)
        if environment.variables.get("ASCEND_RUNTIME_OPTIONS"):
            yield TEXTS.finding("options", refs=(_RUNTIME,), environment=environment)
        return
    driver = case.need(Driver)
    if driver.docker is None:
        raise NotApplicable("no docker is set up on this machine")
    if driver.docker.path is None and driver.docker.mounts:
        yield TEXTS.finding("unknown-to-docker", refs=(_RUNTIME,))
    elif driver.docker.is_there is False:
        yield TEXTS.finding("no-program", refs=(_RUNTIME,), driver=driver)
    elif driver.docker.mounts and not any(_DRIVER in path for path in driver.docker.mounts):
        mounts = ", ".join(driver.docker.mounts)
        yield TEXTS.finding("no-driver-mount", refs=(_RUNTIME,), mounts=mounts, folder=_DRIVER)
    elif driver.docker.path is not None:
        use = "by default" if driver.docker.default else "with --runtime=ascend"
        yield TEXTS.finding("set-up", observed=driver.docker.path, refs=(_RUNTIME,), use=use)
