"""The kernels of the probe triton; triton compiles functions from the file that they stand in."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def scale_and_add(left, right, result, count, FACTOR: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN202, N803 - a kernel
    """``left * FACTOR + right``, with a last block that is not full."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # The last block reaches beyond the end, where nothing may be read or written.
    inside = offsets < count
    first = tl.load(left + offsets, mask=inside, other=0.0)
    second = tl.load(right + offsets, mask=inside, other=0.0)
    tl.store(result + offsets, first * FACTOR + second, mask=inside)


@triton.jit
def row_sums(matrix, result, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN202, N803 - a kernel
    """The sum of each row."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(matrix + row * columns + offsets, mask=offsets < columns, other=0.0)
    tl.store(result + row, tl.sum(values, axis=0))


def launch_scale_and_add(left: Any, right: Any, result: Any, factor: int, block: int) -> None:
    """``result = left * factor + right`` for tensors of one dimension."""
    grid = (-(-left.numel() // block),)
    scale_and_add[grid](left, right, result, left.numel(), FACTOR=factor, BLOCK=block)


def launch_row_sums(matrix: Any, result: Any, block: int) -> None:
    """``result = matrix.sum(1)``; ``block`` is a power of two, not less than the columns."""
    row_sums[(matrix.shape[0],)](matrix, result, matrix.shape[1], BLOCK=block)
