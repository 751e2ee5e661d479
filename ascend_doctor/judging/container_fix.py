"""What a container needs to use this machine's NPUs, as options of docker and lines of a pod."""

import shlex

from ascend_doctor.findings import Remedy, spans
from ascend_doctor.judging.chip import family_or_none
from ascend_doctor.judging.judge import Case
from ascend_doctor.matrix.schema import Family

REF = "https://github.com/vllm-project/vllm-ascend/issues/2698"
_DRIVER = "/usr/local/Ascend/driver"
_MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
# The two driver folders hold all that a process loads; the rest is for tools and HCCL.
_MOUNTS = (
    f"{_DRIVER}/lib64",
    f"{_DRIVER}/version.info",
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/etc/ascend_install.info",
    "/etc/hccn.conf",
    f"{_DRIVER}/tools/hccn_tool",
)
# A subsystem id for a card of two devices behind one PCI function.
_TWO_DEVICES = "0x0110"
# HCCL listens on host addresses, ranks share memory, RDMA locks pages, ranks have many sockets.
_LIMITS = (
    *("--net=host", "--shm-size=64g"),
    *("--ulimit", "memlock=-1", "--ulimit", "nofile=65536:65536"),
)
# A shell stops here and says what is missing.
_IMAGE = '"${IMAGE:?set it to the image of this container}"'


def managers(case: Case) -> tuple[str, ...]:
    """The device files that every process needs beside those of its devices."""
    family = family_or_none(case)
    return family.manager_nodes if family and family.manager_nodes else _MANAGERS


def mounts(case: Case) -> tuple[str, ...]:
    """Host paths that a training container mounts read-only at the same place."""
    family = family_or_none(case)
    return host_paths(family)


def host_paths(family: Family | None) -> tuple[str, ...]:
    """The same for a family of chips."""
    ports = family is not None and family.network == "ports"
    return (*_MOUNTS, *((f"{_DRIVER}/topo",) if ports else ()))


def pci_devices(case: Case) -> int | None:
    """The device count of this machine's PCI functions."""
    driver, family = case.facts.driver, family_or_none(case)
    if driver is None or driver.pci is None or family is None or not family.pci_device:
        return None
    own = [function for function in driver.pci if function.device[-4:] == family.pci_device[-4:]]
    return sum(2 if function.subsystem_device == _TWO_DEVICES else 1 for function in own)


def device_count(case: Case) -> int | None:
    """The device count for a container: the requested one, else all known."""
    driver = case.facts.driver
    return case.nproc or (len(driver.devices) if driver else 0) or pci_devices(case)


def start_again(case: Case, summary: str) -> Remedy:
    host = case.facts.host
    inside = host.container if host else None
    if inside is not None and inside.kind == "kubernetes":
        return Remedy(
            summary=f"{summary}; these lines belong to the container's part of the pod",
            commands=(_pod(case),),
        )
    runtime = inside is not None and inside.ascend_docker_runtime
    command = _ascend_runtime(case) if runtime else _docker_run(case)
    return Remedy(summary=f"{summary}; set IMAGE to its image first", commands=(command,))


def run_image(case: Case, cann: str | None) -> tuple[str, ...]:
    host, python, family = case.facts.host, case.facts.python, family_or_none(case)
    if host is None or host.container is not None or family is None or not cann:
        return ()
    image = case.catalog.images.nearest(
        cann=cann,
        family=family.id,
        python=".".join((python.version or "").split(".")[:2]) if python else "",
        system=host.os_id or "",
    )
    return (_docker_run(case, image.name),) if image else ()


def mount_again(case: Case, summary: str) -> Remedy:
    """As ``start_again``, but in words if container-devices already prints that command."""
    driver = case.facts.driver
    if driver is not None and all(node.kind == "manager" for node in driver.nodes):
        return Remedy(summary=f"{summary}; the command of container-devices does so")
    return start_again(case, summary)


def _docker_run(case: Case, image: str = _IMAGE) -> str:
    """One command for the host. Without known numbers its shell lists the devices."""
    driver = case.facts.driver
    paths = [device.path for device in driver.devices] if driver else []
    devices = [f"--device={shlex.quote(path)}" for path in paths]
    # A container without devices does not show the host's.
    listed = " ".join(devices) or "$(printf -- '--device=%s ' /dev/davinci[0-9]*)"
    return " \\\n".join(
        (
            "docker run --rm -it",
            f"  {listed}",
            f"  {' '.join(f'--device={path}' for path in managers(case))}",
            *(f"  -v {path}:{path}:ro" for path in mounts(case)),
            f"  {' '.join(_LIMITS)}",
            f"  {image}",
        )
    )


def _ascend_runtime(case: Case) -> str:
    """Ascend Docker Runtime mounts devices and libraries itself, but not these files."""
    count = device_count(case)
    devices = spans(range(count)) if count else "0"
    own = (f"{_DRIVER}/version.info", *mounts(case)[4:])
    return " \\\n".join(
        (
            f"docker run --rm -it --runtime=ascend -e ASCEND_VISIBLE_DEVICES={devices}",
            *(f"  -v {path}:{path}:ro" for path in own),
            f"  {' '.join(_LIMITS)}",
            f"  {_IMAGE}",
        )
    )


def _pod(case: Case) -> str:
    family = family_or_none(case)
    resource = family.pod.resource if family and family.pod else "huawei.com/Ascend910"
    paths = {f"npu{number}": path for number, path in enumerate(mounts(case))}
    return "\n".join(
        (
            "cat <<'EOF'",
            f"resources: {{limits: {{{resource}: {device_count(case) or 1}}}}}",
            "volumeMounts:",
            *(
                f"- {{name: {name}, mountPath: {path}, readOnly: true}}"
                for name, path in paths.items()
            ),
            "- {name: shm, mountPath: /dev/shm}",
            "volumes:",
            *(f"- {{name: {name}, hostPath: {{path: {path}}}}}" for name, path in paths.items()),
            "- {name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}",
            "EOF",
        )
    )
