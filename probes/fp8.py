"""Multiplies FP8 matrices where the device can, and records what FP8 demands of token counts.

Factors are small whole numbers and scales powers of two, so that every product is exact. On CUDA
and on the CPU through torch._scaled_mm; CUDA needs compute capability 8.9. On NPUs through
npu_add_quant_matmul_, which is documented for Ascend 950 alone, as all that torch_npu has of FP8
(Ascend/op-plugin:docs/zh/custom_APIs/torch_npu).
"""

from __future__ import annotations

from typing import Any

import _megatron
import _probe
from _probe import Probe

MANIFEST = {
    "order": 160,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["device", "mindspeed-patches"],
    "forked": True,
    "does": "products of FP8 matrices that must be exact, and the alignment that Megatron asks for",
    "on_cpu": "the same",
}

FORMATS = ("float8_e4m3fn", "float8_e5m2")
# torch._scaled_mm wants multiples of 16.
ROWS, DEPTH, COLUMNS = 32, 64, 48
SCALES = (0.5, 4.0)
LEAST_CAPABILITY = (8, 9)
# torch_npu's number of Ascend 950 (torch_npu/op_plugin/meta/_meta_registrations.py of 2.13.0).
ASCEND_950 = 260
# Exponents of scales are stored with a bias of 127: one is 2 to the power of 0.
ONE_E8M0 = 127
# Scales of two blocks of 32 elements lie side by side.
PAIRS_OF = 64


def body(probe: Probe) -> None:
    """FP8 products by value, and the alignment that Megatron asks for."""
    torch = probe.torch()
    with probe.stage("alignment"):
        probe.measure("alignment", alignment(probe, torch))
    with probe.stage("capability"):
        reason = unable(probe, torch)
        probe.measure("unable", reason)
    if reason:
        return
    for name in FORMATS:
        with probe.stage(f"product of {name}"):
            got = product(probe, torch, getattr(torch, name))
            if probe.tampers(probe.stage_name):
                got[0, 0] += 1
            expected = whole(torch, 0) @ whole(torch, 1)
            if probe.device != "npu":
                expected = expected * SCALES[0] * SCALES[1]
            differ = int((got != expected).sum())
            probe.expect(f"{name}: elements that differ of {got.numel()}", differ, 0)


def unable(probe: Probe, torch: Any) -> str:
    """Why this device has no FP8, "" where it has."""
    if probe.device == "cuda":
        capability = torch.cuda.get_device_capability()
        if capability < LEAST_CAPABILITY:
            return f"compute capability {capability[0]}.{capability[1]}, and FP8 needs 8.9"
    if probe.device == "npu":
        from torch_npu.npu.utils import get_soc_version

        name = torch.npu.get_device_name()
        if get_soc_version() < ASCEND_950:
            return f"{name}: operators for FP8 are documented for Ascend 950 alone"
    return ""


def whole(torch: Any, side: int) -> Any:
    """A factor of small whole numbers, which FP8 holds exactly; 8 rows differ, then repeat."""
    shape = ((ROWS, DEPTH), (DEPTH, COLUMNS))[side]
    rows, columns = torch.arange(shape[0])[:, None], torch.arange(shape[1])[None]
    return ((rows * 3 + columns * 5 + side) % 7 - 3).float()


def product(probe: Probe, torch: Any, kind: Any) -> Any:
    """The product as float32, on the CPU. The second factor is e4m3, as weights are."""
    left = whole(torch, 0).to(kind).to(probe.torch_device())
    other = whole(torch, 1).to(torch.float8_e4m3fn).to(probe.torch_device())
    if probe.device == "npu":
        return on_npu(probe, torch, left, other).cpu()
    scales = [torch.tensor(scale, device=probe.torch_device()) for scale in SCALES]
    # It must lie column by column.
    other = other.t().contiguous().t()
    return torch._scaled_mm(  # noqa: SLF001 - torch has no public name for it in all releases
        left, other, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.float32
    ).cpu()


def on_npu(probe: Probe, torch: Any, left: Any, other: Any) -> Any:
    """As in the example of the operator's documentation, with scales of one for blocks of 32."""
    import torch_npu

    def ones(length: int) -> Any:
        shape = (DEPTH // PAIRS_OF, length, 2)
        return torch.full(shape, ONE_E8M0, dtype=torch.int8, device=probe.torch_device())

    total = torch.zeros(ROWS, COLUMNS, device=probe.torch_device())
    return torch_npu.npu_add_quant_matmul_(
        total,
        left.t().contiguous().t(),
        other,
        ones(COLUMNS),
        x1_scale=ones(ROWS).transpose(0, 1),
        x1_scale_dtype=torch_npu.float8_e8m0fnu,
        x2_scale_dtype=torch_npu.float8_e8m0fnu,
        group_sizes=[1, 1, 32],
    )


def alignment(probe: Probe, torch: Any) -> dict[str, int | None]:
    """How many tokens megatron.core wants a multiple of, by recipe; None where it does not say."""
    sizes: dict[str, int | None] = {"delayed": None, "mxfp8": None}
    if not _megatron.find_installed():
        return sizes
    _megatron.load(probe, torch)
    try:
        from megatron.core.enums import Fp8Recipe
        from megatron.core.fp8_utils import get_fp8_align_size
    except ImportError:
        return sizes
    return {name: int(get_fp8_align_size(Fp8Recipe(name))) for name in sizes}


if __name__ == "__main__":
    _probe.main(body, name="fp8")
