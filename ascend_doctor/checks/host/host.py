"""What the operating system grants a training job: shared memory and limits."""

from ascend_doctor.facts import Host, require_known
from ascend_doctor.judging import Case, Findings, Remedy, Texts, Unknown, check, show_bytes, warning
from ascend_doctor.judging.chip import ascend

TEXTS = Texts("host")

_GIB = 1 << 30
_PLACE = "/dev/shm"  # noqa: S108 - the subject; nothing is put there
# Docker's default is 64 MB; data loaders and HCCL want several GB.
_SHM_LITTLE = 4 * _GIB
_FILES = 32768
_POD = """cat <<'EOF'
volumeMounts: [{name: shm, mountPath: /dev/shm}]
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]
EOF"""
_SHM = "https://github.com/pytorch/pytorch/issues/26009"
_DOCKER = "https://docs.docker.com/reference/cli/docker/container/run/"


@check("shared-memory", f"{_PLACE} has room for data loaders and HCCL")
def shared_memory(case: Case) -> Findings:
    """Data loader workers and HCCL pass data between processes through /dev/shm.

    Docker gives a container 64 MB where nothing is said. A worker that runs out of it is killed by
    a bus error, and HCCL fails to share memory between ranks. Start the container with --shm-size
    or --ipc=host; in Kubernetes mount an emptyDir with medium Memory at /dev/shm.
    """
    host = case.need(Host)
    size = require_known(host.shm_size, "the size of /dev/shm")
    free = host.shm_free
    if size < _SHM_LITTLE:
        yield warning(
            f"{_PLACE} has {show_bytes(size)} only",
            observed=show_bytes(size) + ("" if free is None else f", {show_bytes(free)} free"),
            required="several GB",
            because="Data loader workers die of a bus error, and HCCL cannot share memory.",
            remedy=_larger(host),
            refs=(_SHM,),
        )
    elif free is not None and free < _GIB:
        yield warning(
            f"{_PLACE} is nearly full: {show_bytes(free)} are free",
            observed=f"{show_bytes(free)} of {show_bytes(size)} free",
            required="several GB free",
            because="Files of jobs that were killed stay there until somebody removes them.",
            remedy="See what lies there, and remove what no running job owns",
            commands=("ls -lS /dev/shm | head -n 20",),
            refs=(_SHM,),
        )


def _larger(host: Host) -> Remedy:
    if host.container is None:
        return Remedy(
            summary="Make it larger", commands=("sudo mount -o remount,size=64G /dev/shm",)
        )
    if host.container.kind == "kubernetes":
        return Remedy(
            summary="Mount memory at /dev/shm: add this to the pod, with the volume mount in the "
            "container",
            commands=(_POD,),
        )
    return Remedy(summary="Start the container again with --shm-size=64g, or with --ipc=host")


@TEXTS.check("resource-limits")
def _resource_limits(case: Case) -> Findings:
    ascend(case)
    host = case.need(Host)
    limits = {limit.name: limit for limit in host.limits}
    files, memory = limits.get("nofile"), limits.get("memlock")
    silent = [name for name in ("nofile", "memlock") if name not in limits]
    inside = host.container is not None
    if files is not None and 0 <= files.soft < _FILES:
        yield warning(
            f"Only {files.soft} files may be open",
            observed=f"nofile: soft {files.soft}, hard {_limit(files.hard)}",
            required=f"at least {_FILES}",
            because="Many ranks and data loaders need more.",
            remedy=f"Start the container again with --ulimit nofile={_FILES}:{_FILES}"
            if inside and 0 <= files.hard < _FILES
            else "Raise it in the script that starts the training",
            commands=() if 0 <= files.hard < _FILES else (f"ulimit -n {_FILES}",),
            refs=(_DOCKER,),
        )
    if memory is not None and memory.soft >= 0:
        yield warning(
            f"Locked memory is limited to {memory.soft // 1024} kB",
            observed=f"memlock: soft {memory.soft // 1024} kB, hard {_limit(memory.hard)}",
            required="unlimited",
            because="RDMA between nodes has to lock its buffers.",
            remedy="Start the container again with --ulimit memlock=-1"
            if inside
            else "Set memlock to unlimited in /etc/security/limits.conf and log in again; "
            "for jobs of a service, set LimitMEMLOCK=infinity there",
            refs=(_DOCKER,),
        )
    if silent:
        raise Unknown(f"the limits {' and '.join(silent)} were not told")


def _limit(value: int) -> str:
    return "unlimited" if value < 0 else str(value)
