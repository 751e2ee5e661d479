"""Fused operators, dtypes and Triton kernels, judged by what their probes measured."""

import re
from collections.abc import Callable, Mapping

from ascend_doctor.checks.cann.probes.operators import read_outcomes
from ascend_doctor.checks.probes.run_failures import failures, ran, story
from ascend_doctor.judging import Case, Findings, Remedy, Texts, Unknown, error, note
from ascend_doctor.probe_records.common import ProbeRecord
from ascend_doctor.probe_records.operators import (
    DtypeCase,
    DtypeRecord,
    KernelCase,
    KernelsRecord,
    TritonRecord,
)
from ascend_doctor.probe_results import ProbeRun

TEXTS = Texts("fused")

# All in bfloat16 (8 bits). Good ones show 6e-3 (attention), 5e-3 (gradients), 4e-3 (operators).
_ATTENTION = {"value": 2e-2, "gradient": 2e-2}
_FUSED = {"value": 2e-2, "gradient": 2e-2, "sum": 2e-2, "arrived": 0.0}
# Names of CANN's kernel compiler in triton-ascend 3.2.0 (triton/backends/ascend/utils.py).
_COMPILER = re.compile(r"FileNotFoundError.*'(?:bishengir-compile|npuc)'")
# The CANN stand-in's message for a kernel that it lacks.
_NO_KERNEL = re.compile(r"\b(\w{3,80}) is not simulated")
# What every case of a probe measures.
_ALWAYS = {"flash-attention": ("value", "gradient"), "fused-ops": ("value",)}
# 64 x 64 products, relative to the largest element: seen 2e-7, 2e-3, 2e-4, 0; HF32 has 10 bits.
_PRODUCT = {"float32": 2e-3, "bfloat16": 3e-2, "float16": 5e-3, "float64": 1e-6}


@TEXTS.check("flash-attention", level=2, probe="flash-attention")
def _flash_attention(case: Case) -> Findings:
    yield from _all(case, "flash-attention", _ATTENTION, _DENSE)


@TEXTS.check("fused-ops", level=2, probe="fused-ops")
def _fused_ops(case: Case) -> Findings:
    yield from _all(case, "fused-ops", _FUSED, _PLAIN)


_DENSE = Remedy(
    summary="Train without flash attention until this works (--use-flash-attn off), or install the "
    "operator package (kernels) of this chip and source set_env.sh again"
)
_PLAIN = Remedy(
    summary="Switch the option of this operator off, or install the operator package (kernels) of "
    "this chip and source set_env.sh again"
)


def _all(case: Case, probe: str, limits: Mapping[str, float], remedy: Remedy) -> Findings:
    def problem(outcome: KernelCase) -> str:
        errors = outcome.errors
        off = [
            f"{key} off by {errors[key]}"
            for key, limit in limits.items()
            if key in errors and not float(errors[key]) <= limit
        ]
        if lacking := [key for key in _ALWAYS[probe] if key not in errors]:
            return f"no {' and no '.join(lacking)} was measured"
        return ", ".join(off)

    bounds = ", ".join(f"{key} within {limit:g}" for key, limit in limits.items())
    run = ran(case, probe)
    yield from failures(run)
    yield from _judge_kernel(run, problem, bounds, remedy)
    outcomes = read_outcomes(run.first_record(KernelsRecord).cases)
    yield note(observed=f"compared on {run.device}: {', '.join(outcomes)}")


def _judge_kernel(
    run: ProbeRun, problem: Callable[[KernelCase], str], required: str, remedy: Remedy
) -> Findings:
    outcomes = read_outcomes(run.first_record(KernelsRecord).cases)
    untold = {
        name: lacking[1]
        for name, outcome in outcomes.items()
        if run.simulated and (lacking := _NO_KERNEL.search(outcome.error or ""))
    }
    if untold:
        kernels = ", ".join(sorted(set(untold.values())))
        yield TEXTS.finding(
            "odd-value",
            title=f"Could not tell whether {', '.join(untold)} can be used",
            kernels=kernels,
        )
    texts = {
        name: story(outcome) if outcome.error else problem(outcome)
        for name, outcome in outcomes.items()
        if name not in untold
    }
    for how, failed in (
        ("fails", [name for name in texts if outcomes[name].error]),
        ("is wrong", [name for name in texts if texts[name] and not outcomes[name].error]),
    ):
        if failed:
            verb = how if len(failed) == 1 else {"fails": "fail", "is wrong": "are wrong"}[how]
            yield error(
                f"{run.probe}: {', '.join(failed)} {verb}",
                observed=f"{failed[0]}: {texts[failed[0]]}",
                required=required,
                because="Training stops there, or runs on with wrong numbers.",
                remedy=remedy if run.device == "npu" else None,
            )


@TEXTS.check("dtype", level=2, probe="dtype")
def _dtype(case: Case) -> Findings:
    run = ran(case, "dtype")
    yield from failures(run)
    outcomes = read_outcomes(run.first_record(DtypeRecord).cases)
    optional = _optional(case)
    absent: list[str] = []
    for name, outcome in outcomes.items():
        problem = _off(name, outcome)
        if not problem:
            continue
        refused = bool(outcome.error or outcome.product_error)
        if refused and name in optional:
            absent.append(name)
            continue
        yield error(
            f"dtype: {name} {'fails' if refused else 'is wrong'}",
            observed=problem,
            required="conversions as on the CPU, exact sums of whole numbers, and products "
            f"within {_PRODUCT.get(name, 0):g}",
            because="Training in this dtype stops, or runs on with wrong numbers.",
            remedy=_PACKAGE if run.device == "npu" and refused else None,
        )
    have = [name for name in outcomes if name not in absent]
    yield note(observed=", ".join(have) + (f"; not {', '.join(absent)}" if absent else ""))


_PACKAGE = Remedy(
    summary="Install the operator package (kernels) of this chip and source set_env.sh again"
)


def _optional(case: Case) -> set[str]:
    if case.device != "npu":
        return {"float8_e4m3fn", "float8_e5m2"}
    names = [
        record.name
        for run in case.facts.probes
        for rank in run.ranks
        if (record := rank.record_or_none(ProbeRecord)) and record.name
    ]
    family = case.catalog.family_of(names[0]) if names else None
    dtypes = {"float64"}
    if family is None or family.fp8 is not True:
        dtypes |= {"float8_e4m3fn", "float8_e5m2"}
    if family is not None and family.bf16 is False:
        dtypes.add("bfloat16")
    return dtypes


def _off(name: str, outcome: DtypeCase) -> str:
    if outcome.error:
        return story(outcome)
    parts = []
    if outcome.differ != 0:
        parts.append(f"{outcome.differ} elements are converted otherwise than on the CPU")
    measured = outcome.product is not None or outcome.product_error
    if name in _PRODUCT and (outcome.sum is None or not measured):
        raise Unknown(f"the probe dtype recorded no sum or product in {name}")
    if outcome.sum is False:
        parts.append("a sum of whole numbers is wrong")
    if outcome.product_error:
        parts.append(f"a product is refused: {outcome.product_error}")
    if not float(outcome.product or 0.0) <= _PRODUCT.get(name, 0.0):
        parts.append(f"a product is off by {outcome.product}")
    return "; ".join(parts)


@TEXTS.check("triton-kernel", level=2, probe="triton-kernel")
def _triton(case: Case) -> Findings:
    run = ran(case, "triton-kernel")
    yield from failures(run)
    record = run.first_record(TritonRecord)
    owners, interpreted = record.distributions, record.interpreted
    for name, outcome in read_outcomes(record.cases).items():
        if run.simulated and outcome.error and _COMPILER.search(outcome.error):
            interpreted = True
            outcome = record.interpretations.get(name, outcome)  # noqa: PLW2901 - the same kernel
            if outcome.error:
                raise Unknown("a simulated NPU has no compiler of kernels")
        if outcome.error or outcome.differ != 0:
            yield error(
                f"triton: the kernel {name} {'fails' if outcome.error else 'is wrong'}",
                observed=story(outcome) if outcome.error else f"{outcome.differ} wrong elements",
                required="exact whole numbers",
                because=f"The module triton comes from {', '.join(owners) or 'no package'}.",
                remedy="Uninstall triton and triton-ascend, then install triton-ascend alone"
                if run.device == "npu"
                else None,
            )
    how = "by its interpreter" if interpreted else f"on {run.device}"
    yield note(observed=f"{', '.join(owners)}, {how}")
