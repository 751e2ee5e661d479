"""What the probes measured, judged."""

from ascend_doctor.checks.probes.run_failures import failures, ran
from ascend_doctor.judging import Case, Findings, Texts, Unknown, note
from ascend_doctor.probe_records.device import (
    AllReduceRecord,
    CollectivesRecord,
    DeviceRecord,
    MatrixProduct,
)

TEXTS = Texts("probes")

# 256 x 256 products, relative to the largest element: on a CPU 4e-7, 4e-4, 3e-3; HF32 has 10 bits.
_TOLERANCE = {"float32": 2e-3, "float16": 5e-3, "bfloat16": 3e-2}
# The first call links all ranks; later ones of one element take far below a second.
_SLOW_FIRST = 60.0
_SLOW_STEADY = 1.0


@TEXTS.check("device", level=2, probe="device")
def _device(case: Case) -> Findings:
    run = ran(case, "device")
    yield from failures(run)
    for result in run.ranks:
        record = result.record(DeviceRecord)
        absent = _lacking(case, record)
        for name, product in record.matmul.items():
            if name not in absent:
                yield from _product(name, product)
        if (record.leaked_bytes or 0) > 0:
            yield TEXTS.finding("device-memory", record=record)
    if run.ranks:
        records = [result.record(DeviceRecord) for result in run.ranks]
        lost = [each for each in records if each.leaked_bytes is None and run.device != "cpu"]
        if lost or not all(record.matmul for record in records):
            raise Unknown("the probe device recorded no products, or no memory that is left")
        name = run.first_record(DeviceRecord).name or case.device
        yield note(observed=name)


def _lacking(case: Case, record: DeviceRecord) -> set[str]:
    family = case.catalog.family_of(record.name or "")
    return {"bfloat16"} if family is not None and family.bf16 is False else set()


def _product(dtype: str, product: MatrixProduct) -> Findings:
    if product.error:
        yield TEXTS.finding("device-matrix", observed=product.error, dtype=dtype)
        return
    off = product.error_relative
    tolerance = _TOLERANCE.get(dtype, 0.0)
    if product.finite is not True or not isinstance(off, float) or off > tolerance:
        yield TEXTS.finding(
            "wrong-product", dtype=dtype, off=off, product=product, tolerance=tolerance
        )


@TEXTS.check("allreduce", level=3, probe="allreduce")
def _allreduce(case: Case) -> Findings:
    run = ran(case, "allreduce")
    yield from failures(run)
    records = [result.record(AllReduceRecord) for result in run.ranks]
    first = max((record.first_call_s or 0.0 for record in records), default=0.0)
    steady = max((record.steady_s or 0.0 for record in records), default=0.0)
    if first > _SLOW_FIRST or steady > _SLOW_STEADY:
        yield TEXTS.finding(
            "allreduce-adding",
            required=f"at most {_SLOW_FIRST:.0f} s and {_SLOW_STEADY:.0f} s",
            first=first,
            steady=steady,
        )
    if any(None in (record.first_call_s, record.steady_s) for record in records):
        raise Unknown("the probe allreduce recorded no times")
    yield note(observed=f"{run.where}, {run.compared} sums compared")


@TEXTS.check("collectives", level=3, probe="collectives")
def _collectives(case: Case) -> Findings:
    run = ran(case, "collectives")
    yield from failures(run)
    records = [result.record(CollectivesRecord) for result in run.ranks]
    if any(record.rounding == "toward zero" for record in records):
        yield TEXTS.finding("cut-sums")
    yield note(observed=f"{run.where}, {run.compared} results compared")
