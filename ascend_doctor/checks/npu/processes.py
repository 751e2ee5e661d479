"""Who uses the NPUs: processes, their owners, and memory that somebody holds."""

from collections.abc import Collection

from ascend_doctor.checks.npu.npus import visible_npus
from ascend_doctor.facts import Holder, Holders, Npu, NpuProcess, Npus
from ascend_doctor.judging import (
    Case,
    Finding,
    Findings,
    NeedsRoot,
    Texts,
    Unknown,
    quantity,
    spans,
    warning,
)
from ascend_doctor.judging.chip import (
    ascend,
    container,
    family_or_none,
    lacks_root,
    npu_name,
    require_answers,
)

TEXTS = Texts("processes")

_TABLE = "hicann/driver@ef377e95:npucli"
_LEFT = "https://github.com/hiyouga/LlamaFactory/issues/3839"
# Above the largest idle figure seen; captures differ by some hundred MB.
_MARGIN_MB = 1024
_BUSY_PERCENT = 5


@TEXTS.check("npu-free")
def _npu_free(case: Case) -> Findings:
    ascend(case)
    npus, holders = case.facts.npus, case.facts.holders
    rows = _unheld(npus, set(_holders_by_device(holders))) if npus else []
    owners = list(holders.processes) if holders else []
    busy = _busy(npus, holders) if npus else []
    if owners or rows:
        yield _in_use(owners, rows)
    if busy:
        yield TEXTS.finding(
            "job-another",
            count=quantity(len(busy), "NPU"),
            verb="are" if len(busy) > 1 else "is",
            observed="; ".join(f"{npu_name(npu)}: {npu.utilisation} % busy" for npu in busy),
            refs=(_TABLE, _LEFT),
            devices=tuple(npu.device for npu in busy if npu.device is not None),
        )
    elif owners or rows:
        return
    elif (npus is None or npus.processes is None) and not (holders and holders.complete):
        reason = "neither npu-smi nor /proc tells all processes"
        raise NeedsRoot(reason) if lacks_root(case) else Unknown(reason)
    require_answers(visible_npus(case).devices, "the load", lambda npu: npu.utilisation)


def _busy(npus: Npus, holders: Holders | None) -> list[Npu]:
    held, listed = _holders_by_device(holders), _rows_by_device(npus)
    return [
        npu
        for npu in npus.devices
        if (npu.utilisation or 0) > _BUSY_PERCENT
        and npu.device not in held
        and (npu.npu_id, npu.chip_id) not in listed
    ]


def _unheld(npus: Npus, held: set[int]) -> list[tuple[Npu, NpuProcess]]:
    places = {(device.npu_id, device.chip_id): device for device in npus.devices}
    findings = []
    for row in npus.processes or ():
        position = (row.npu_id, row.chip_id)
        npu = places.get(position, Npu(npu_id=row.npu_id, chip_id=row.chip_id))
        if npu.device not in held:
            findings.append((npu, row))
    return findings


def _holders_by_device(holders: Holders | None) -> dict[int, list[Holder]]:
    holders_of: dict[int, list[Holder]] = {}
    for process in holders.processes if holders else ():
        for device in process.devices:
            holders_of.setdefault(device, []).append(process)
    return holders_of


def _rows_by_device(npus: Npus | None) -> dict[tuple[int, int], list[NpuProcess]]:
    rows_of: dict[tuple[int, int], list[NpuProcess]] = {}
    for process in (npus.processes or ()) if npus else ():
        rows_of.setdefault((process.npu_id, process.chip_id), []).append(process)
    return rows_of


def _in_use(owners: list[Holder], rows: list[tuple[Npu, NpuProcess]]) -> Finding:
    devices = {device for owner in owners for device in owner.devices}
    devices |= {npu.device for npu, _ in rows if npu.device is not None}
    pids = [str(owner.pid) for owner in owners]
    return TEXTS.finding(
        "two-jobs",
        title=f"NPUs are in use: {_devices(devices)}" if devices else "NPUs are in use",
        observed="; ".join((*map(_owner, owners), *(_row(npu, row) for npu, row in rows))),
        commands=(f"ps -o pid,user,etime,args -p {','.join(pids)}",) if pids else ("npu-smi info",),
        refs=(_TABLE, _LEFT),
        devices=tuple(sorted(devices)),
    )


def _devices(ids: Collection[int]) -> str:
    return f"device{'s' if len(ids) > 1 else ''} {spans(ids)}"


def _owner(holder: Holder) -> str:
    age = "" if holder.age is None else f", since {_span(holder.age)}"
    inside = ", in a container" if holder.container else ""
    name, user = holder.name or "(no name)", holder.user or "not known"
    return f"pid {holder.pid} {name} of {user}{age}{inside} on {spans(holder.devices)}"


def _span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _row(npu: Npu, process: NpuProcess) -> str:
    memory = "" if process.memory_mb is None else f", {process.memory_mb} MB"
    name = f" {process.name}" if process.name else ""
    return f"{npu_name(npu)}: pid {process.pid}{name}{memory}"


@TEXTS.check("npu-memory")
def _npu_memory(case: Case) -> Findings:
    ascend(case)
    npus = visible_npus(case)
    family = family_or_none(case)
    if family is None or family.idle_hbm_mb is None:
        raise Unknown("what an idle chip of this kind uses is not known")
    held = _holders_by_device(case.facts.holders)
    listed = _rows_by_device(npus)
    full = [
        npu
        for npu in npus.devices
        if (_memory_mb(npu) or 0) > family.idle_hbm_mb + _MARGIN_MB
        and npu.device not in held
        and (npu.npu_id, npu.chip_id) not in listed
    ]
    if full:
        places = "; ".join(
            f"{npu_name(npu)}: {_memory_mb(npu)} MB"
            + (f", {npu.utilisation} % busy" if (npu.utilisation or 0) > _BUSY_PERCENT else "")
            for npu in full
        )
        devices = tuple(npu.device for npu in full if npu.device is not None)
        inside = container(case) is not None
        yield warning(
            "Memory is held, and no process shows"
            + (f": {_devices(devices)}" if devices else f" on {len(full)} NPUs"),
            observed=places,
            required=f"at most {family.idle_hbm_mb} MB, as idle chips of {family.title} use",
            because="It belongs to a job in another container, to another user, or to a process "
            "that was killed and has not ended.",
            remedy="On the host, as root, see who has the devices open"
            if inside
            else "See as root who has the devices open",
            commands=("sudo fuser -v /dev/davinci[0-9]*", "npu-smi info"),
            refs=("npu-smi captures of idle machines in public reports", _LEFT),
            devices=devices,
        )
    require_answers(npus.devices, "the memory", _memory_mb)


def _memory_mb(npu: Npu) -> int | None:
    """Memory in use: HBM, else the only memory (310). From 910B on the other one is "0 / 0"."""
    usage = npu.hbm or npu.memory
    return usage.used if usage and usage.total else None
