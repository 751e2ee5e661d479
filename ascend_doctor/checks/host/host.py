"""What the operating system grants a training job: shared memory and limits."""

from ascend_doctor.facts import Host, Limit, require_known
from ascend_doctor.judging import Case, Findings, Remedy, Texts, Unknown, show_bytes, warning
from ascend_doctor.judging.chip import ascend

TEXTS = Texts("host")

_GIB = 1 << 30
# Docker's default is 64 MB; data loaders and HCCL want several GB.
_SHM_LITTLE = 4 * _GIB
_FILES = 32768
# Eight ranks start several hundred; below 2 MB of stack glibc's own default is larger.
_THREADS, _STACK = 4096, 2 << 20
_POD = """cat <<'EOF'
volumeMounts: [{name: shm, mountPath: /dev/shm}]
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]
EOF"""
_DOCKER = "https://docs.docker.com/reference/cli/docker/container/run/"
_GETRLIMIT = "https://man7.org/linux/man-pages/man2/getrlimit.2.html"


@TEXTS.check("shared-memory")
def shared_memory(case: Case) -> Findings:
    host = case.need(Host)
    size = require_known(host.shm_size, "the size of /dev/shm")
    shown, free = show_bytes(size), host.shm_free
    if size < _SHM_LITTLE:
        observed = shown + ("" if free is None else f", {show_bytes(free)} free")
        yield TEXTS.finding("little", remedy=_larger(host), size=shown, observed=observed)
    elif free is not None and free < _GIB:
        yield TEXTS.finding("nearly-full", free=show_bytes(free), size=shown)


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


_COUNTED = "Threads of ranks and data loaders count as processes."
# By limit: the least, -1 for none, the option of ulimit, and what happens below.
_NEEDS = {
    "nofile": (_FILES, f"-n {_FILES}", "Many ranks and data loaders need more."),
    "memlock": (-1, "-l unlimited", "RDMA between nodes has to lock its buffers."),
    "kernel.pid_max": (_FILES, f"sudo sysctl -w kernel.pid_max={_FILES}", _COUNTED),
    "nproc": (_THREADS, f"-u {_THREADS}", _COUNTED),
    "stack": (_STACK, f"-s {_STACK >> 10}", "Every thread gets a stack of this size."),
    "fsize": (-1, "-f unlimited", "A process that writes a larger checkpoint is killed."),
    "as": (-1, "-v unlimited", "The runtime maps much more memory than it uses."),
    "data": (-1, "-d unlimited", "Weights and optimizer state pass through it."),
    "cpu": (-1, "-t unlimited", "A process that has computed for so many seconds is killed."),
}


@TEXTS.check("resource-limits")
def _resource_limits(case: Case) -> Findings:
    ascend(case)
    host = case.need(Host)
    limits = {limit.name: limit for limit in host.limits}
    for name, (least, option, because) in _NEEDS.items():
        limit = limits.get(name, Limit(name=name, soft=-1, hard=-1))
        # Linux does not count processes of root (getrlimit(2)).
        if limit.soft < 0 or 0 <= least <= limit.soft or (name == "nproc" and host.uid == 0):
            continue
        can_raise = limit.hard < 0 or 0 <= least <= limit.hard
        counts = name in {"nofile", "nproc", "cpu"} or "." in name
        soft = str(limit.soft) if counts else show_bytes(limit.soft)
        yield warning(
            f"{name} is limited to {soft}",
            observed=f"{name}: soft {soft}, hard {_limit(limit.hard)}",
            required=_limit(least),
            because=because,
            remedy="Raise it in the script that starts the training"
            if can_raise
            else f"Start the container with --ulimit {name}={least}; on a host set it in "
            "/etc/security/limits.conf and log in again",
            commands=(option if option[0] == "s" else f"ulimit {option}",) if can_raise else (),
            refs=(_DOCKER, _GETRLIMIT),
        )
    silent = [name for name in ("nofile", "memlock") if name not in limits]
    if silent:
        raise Unknown(f"the limits {' and '.join(silent)} were not told")


def _limit(value: int) -> str:
    return "unlimited" if value < 0 else str(value)
