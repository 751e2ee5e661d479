"""torch's own operator database run on the simulated NPU and on the CPU, values and gradients.

usage: sweep.py [NAME...]; prints one JSON object for each operator.
"""

# mypy: ignore-errors
# torch is in the interpreter that runs this, not in the one that checks it.

import itertools
import json
import os
import sys
import warnings
from typing import Any

import torch
import torch_npu  # noqa: F401  it registers the device
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

SAMPLES = 4
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def move_to_npu(value: Any) -> Any:
    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            there = x.detach().to("npu")
            if there.stride() != x.stride() and x.numel() and 0 not in x.stride():
                there = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="npu")
                there.copy_(x.detach())
            return there.requires_grad_(x.requires_grad)
        return torch.device("npu", 0) if x in ("cpu", torch.device("cpu")) else x

    return tree_map(move, value)


def tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(value) if isinstance(x, torch.Tensor)]


def compare(actual: Any, expected: Any, what: str) -> None:
    ours, theirs = tensors(actual), tensors(expected)
    assert len(ours) == len(theirs), f"{what}: {len(ours)} tensors in place of {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        assert a.device.type == "npu", f"{what}: result on {a.device}"
        loose = b.dtype == torch.bfloat16
        torch.testing.assert_close(
            a.detach().cpu(), b.detach(), rtol=2e-2 if loose else 1e-4,
            atol=2e-2 if loose else 1e-5, equal_nan=True,
        )  # fmt: skip


def run(operator: Any, sample: Any, gradients: bool) -> None:
    mine = move_to_npu((sample.input, sample.args, sample.kwargs))
    theirs = (sample.input, sample.args, sample.kwargs)
    torch.manual_seed(5)
    try:
        expected = operator(theirs[0], *theirs[1], **theirs[2])
    except Exception:  # noqa: BLE001  what the CPU refuses is no sample
        return
    torch.manual_seed(5)
    actual = operator(mine[0], *mine[1], **mine[2])
    compare(actual, expected, "values")
    if not gradients:
        return
    pairs = [
        (a, b) for a, b in zip(tensors(actual), tensors(expected), strict=True) if b.requires_grad
    ]
    leaves = [
        (a, b) for a, b in zip(tensors(mine), tensors(theirs), strict=True) if b.requires_grad
    ]
    if not pairs or not leaves:
        return
    weights = [torch.ones_like(b) for _, b in pairs]
    try:
        expected = torch.autograd.grad(
            [b for _, b in pairs], [b for _, b in leaves], weights, allow_unused=True
        )
    except Exception:  # noqa: BLE001  what the CPU refuses is no sample
        return
    actual = torch.autograd.grad(
        [a for a, _ in pairs], [a for a, _ in leaves], [w.npu() for w in weights], allow_unused=True
    )
    for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
        if b is None:
            assert a is None or not a.any(), f"gradient {number} should be none"
        else:
            assert a is not None, f"gradient {number} is missing"
            compare(a, b, f"gradient {number}")


def main() -> None:
    torch.set_num_threads(1)
    torch.npu.set_compile_mode(jit_compile=False)  # complex numbers exist in this mode only
    warnings.simplefilter("ignore")
    chosen = sys.argv[1:]
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if chosen and name not in chosen:
            continue
        result = "ok"
        for dtype in DTYPES:
            if result == "ok" and dtype in op.supported_dtypes("cpu"):
                result = try_operator(op, dtype)
        print("OP " + json.dumps([name, result]), flush=True)  # noqa: T201
    os._exit(0)


def try_operator(op: Any, dtype: torch.dtype) -> str:
    """The word ok, or how the operator went wrong for the data type."""
    gradients = op.supports_autograd and dtype == torch.float32
    try:
        samples = op.sample_inputs("cpu", dtype, requires_grad=gradients)
        for sample in itertools.islice(samples, SAMPLES):
            run(op.op, sample, gradients)
        if op.inplace_variant is not None:
            samples = op.sample_inputs("cpu", dtype, requires_grad=False)
            for sample in itertools.islice(samples, SAMPLES):
                run(op.inplace_variant, sample, gradients=False)
    except Exception as error:  # noqa: BLE001  a failing operator is a result
        return f"{dtype}: {type(error).__name__}: {error}".strip()[:600]
    return "ok"


main()
