"""What the operating system grants a training job: shared memory and limits."""

import math
import shlex

from ascend_doctor.facts import Host, Limit, require_known
from ascend_doctor.judging import Case, Finding, Findings, Remedy, Texts, Unknown, show_bytes
from ascend_doctor.judging.chip import ascend
from ascend_doctor.judging.value_bounds import describe, fits
from ascend_doctor.matrix.schema import Variable, urls

TEXTS = Texts("host")

_GIB = 1 << 30
# Docker's default is 64 MB; data loaders and HCCL want several GB.
_SHM_LITTLE = 4 * _GIB
_COUNTS, _FULL, _LARGEST = {"nofile", "nproc", "cpu"}, 0.9, 10**17
_POD = """cat <<'EOF'
volumeMounts: [{name: shm, mountPath: /dev/shm}]
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]
EOF"""


@TEXTS.check("shared-memory")
def shared_memory(case: Case) -> Findings:
    host = case.need(Host)
    size = require_known(host.shm_size, "the size of /dev/shm")
    shown, free = show_bytes(size), host.shm_free
    storage = case.facts.storage
    if storage and "ro" in storage.options("/dev/shm"):  # noqa: S108 - the subject
        yield TEXTS.finding("read-only")
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


@TEXTS.check("resource-limits")
def _resource_limits(case: Case) -> Findings:
    ascend(case)
    host = case.need(Host)
    limits = {limit.name: limit for limit in host.limits}
    for row in case.catalog.variables.limits:
        limit = limits.get(row.name)
        # Linux does not count processes of root (getrlimit(2)).
        if limit is None or limit.soft < 0 or (row.name == "nproc" and host.uid == 0):
            continue
        if not fits(row, str(min(limit.soft, _LARGEST))):
            yield _judge_limit(row, limit)
        elif limit.used is not None and limit.used > limit.soft * _FULL:
            yield TEXTS.finding("used-up", refs=urls(row.sources), limit=limit)
    silent = [name for name in ("nofile", "memlock") if name not in limits]
    if silent:
        raise Unknown(f"the limits {' and '.join(silent)} were not told")


def _judge_limit(row: Variable, limit: Limit) -> Finding:
    low, dotted = row.low or 0, "." in row.name
    kind = "limited" if limit.hard < 0 or low <= limit.hard else "limited-hard"
    soft, hard = (
        "unlimited" if value < 0 else str(value) if row.name in _COUNTS else show_bytes(value)
        for value in (limit.soft, limit.hard)
    )
    least = "unlimited" if low == math.inf else f"{low:.0f}"
    return TEXTS.finding(
        "of-group" if row.name == "pids.max" else "of-kernel" if dotted else kind,
        refs=urls(row.sources),
        row=row,
        soft=limit.soft if dotted else soft,
        hard=hard,
        docker=least.replace("unlimited", "-1"),
        required=describe(row).removeprefix("a whole number ") if dotted else least,
        value=shlex.quote(row.default or least),
    )
