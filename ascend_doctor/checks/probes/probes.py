"""What the probes measured, judged."""

from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import failures, ran
from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.probe_records.device import (
    AllReduceRecord,
    CollectivesRecord,
    DeviceRecord,
    MatrixProduct,
)
from ascend_doctor.probe_results import ProbeRun

# 256 x 256 products, relative to the largest element: on a CPU 4e-7, 4e-4, 3e-3; HF32 has 10 bits.
_TOLERANCE = {"float32": 2e-3, "float16": 5e-3, "bfloat16": 3e-2}
# The first call links all ranks; later ones of one element take far below a second.
_SLOW_FIRST = 60.0
_SLOW_STEADY = 1.0


@check("device", "A device computes and copies correctly", level=2, probe="device")
def device(case: Case) -> Iterator[Finding]:
    """One process takes one device, allocates, copies both ways, multiplies, and frees.

    Copies are compared element by element; products of matrices in float32, float16 and bfloat16
    with a float64 product on the CPU. A first call compiles or loads kernels and may take long.
    Where one dtype fails and others work, the kernels of that operator are missing or broken:
    reinstall the operator package for your chip.
    """
    run = ran(case, "device")
    findings = [*failures(run)]
    for result in run.ranks:
        record = result.record(DeviceRecord)
        absent = _lacking(case, record)
        findings += [
            finding
            for name, product in record.matmul.items()
            if name not in absent
            for finding in _product(name, product)
        ]
        if (record.leaked_bytes or 0) > 0:
            findings.append(
                warning(
                    "Device memory is not given back",
                    observed=f"{record.leaked_bytes} bytes still allocated",
                )
            )
    yield from findings
    if not findings and run.ranks:
        if any(_is_hollow(run, result.record(DeviceRecord)) for result in run.ranks):
            raise Unknown("the probe device recorded no products, or no memory that is left")
        name = run.first_record(DeviceRecord).name or case.device
        yield note(observed=name)


def _is_hollow(run: ProbeRun, record: DeviceRecord) -> bool:
    return not record.matmul or (record.leaked_bytes is None and run.device != "cpu")


def _lacking(case: Case, record: DeviceRecord) -> set[str]:
    family = case.catalog.family_of(record.name or "")
    return {"bfloat16"} if family is not None and family.bf16 is False else set()


def _product(dtype: str, product: MatrixProduct) -> Iterator[Finding]:
    if product.error:
        yield error(
            f"device: a {dtype} matrix product fails", observed=product.error, required="a result"
        )
        return
    off = product.error_relative
    tolerance = _TOLERANCE.get(dtype, 0.0)
    if product.finite is not True or not isinstance(off, float) or off > tolerance:
        yield error(
            f"device: a {dtype} matrix product is wrong",
            observed=f"relative difference {off}, all finite: {product.finite}",
            required=f"at most {tolerance:g} from the float64 product on the CPU",
            because="Training runs on with wrong numbers, and nothing says so.",
        )


@check("allreduce", "All-reduce sums are correct", level=3, probe="allreduce")
def allreduce(case: Case) -> Iterator[Finding]:
    """Every rank gives numbers of its own; after an all-reduce each compares each element.

    The backend is hccl on NPUs, nccl on CUDA and gloo on the CPU; there is no fall-back from one
    to another. Several dtypes and sizes are tried, then a barrier and a second group.

    If a rank crashes, hangs or never comes, the report names it, not those that waited for it.
    If ranks do not even find each other, that is no fault of a device, and the result is "could
    not tell". If the links cannot be built, look at the network of the NPUs (hccn), the
    interface that HCCL uses (HCCL_SOCKET_IFNAME) and the firewall; then read HCCL's log.
    """
    run = ran(case, "allreduce")
    findings = [*failures(run)]
    records = [result.record(AllReduceRecord) for result in run.ranks]
    first = max((record.first_call_s or 0.0 for record in records), default=0.0)
    steady = max((record.steady_s or 0.0 for record in records), default=0.0)
    if first > _SLOW_FIRST or steady > _SLOW_STEADY:
        findings.append(
            warning(
                "allreduce: adding up one element is slow",
                observed=f"first call {first:.1f} s, then {steady:.3f} s",
                required=f"at most {_SLOW_FIRST:.0f} s and {_SLOW_STEADY:.0f} s",
            )
        )
    yield from findings
    if not findings:
        if any(None in (record.first_call_s, record.steady_s) for record in records):
            raise Unknown("the probe allreduce recorded no times")
        yield note(observed=f"{run.where}, {run.compared} sums compared")


@check("collectives", "Collectives give correct values", level=3, probe="collectives")
def collectives(case: Case) -> Iterator[Finding]:
    """Every collective of a training step, with values that tell rank, receiver and position apart.

    All-gather, reduce-scatter, minimum and maximum, broadcast, all-to-all with even, uneven and
    empty pieces, a ring of sends and receives, and a barrier, in three dtypes and two lengths.
    Tensor parallelism lives from the first two, experts from all-to-all, pipelines from sends.
    Also int64 beyond 32 bits, slices, views, NaN, and the rounding of bfloat16 sums.

    If all-reduce works and one of these does not, the links are sound: look at the version of
    HCCL, that is, of CANN, and at the settings that choose its algorithms (HCCL_ALGO,
    HCCL_OP_EXPANSION_MODE).
    """
    run = ran(case, "collectives")
    findings = [*failures(run)]
    records = [result.record(CollectivesRecord) for result in run.ranks]
    if any(record.rounding == "toward zero" for record in records):
        findings.append(
            warning(
                "collectives: sums of bfloat16 are cut off, not rounded",
                observed="256 + 1.5 is 256",
                required="258, the nearest number that bfloat16 has",
                because="Sums of gradients become smaller at each reduction.",
            )
        )
    yield from findings
    if not findings:
        yield note(observed=f"{run.where}, {run.compared} results compared")
