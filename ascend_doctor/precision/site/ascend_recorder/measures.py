"""What is kept of a tensor: its shape, its dtype, and sums over its elements, in double precision.

Eight projections on random signs tell two tensors apart whatever order their elements are in: the
mean square of the differences of projections is that of the tensors' distance.
"""

from __future__ import annotations

from typing import Any

import torch

PROJECTIONS = 8
# Signs and elements of so many take 18 MiB in double precision.
_CHUNK = 1 << 18


def measure(tensor: Any, weights: Any = None) -> dict[str, Any]:
    """Statistics of a tensor as values of JSON; ``weights`` are factors of its elements.

    Numbers that are not finite are counted, and are zero in the sums. Raises RuntimeError if no
    elements are accessible, as for a tensor without storage.
    """
    with torch.no_grad(), torch._C.DisableTorchFunction():
        tensor = _local(tensor.detach())
        flat = _flat(tensor if weights is None else tensor.double() * weights)
        total = square = 0.0
        least, most, not_finite = float("inf"), float("-inf"), 0
        projections = torch.zeros(PROJECTIONS, dtype=torch.float64, device="cpu")
        for start in range(0, flat.numel(), _CHUNK):
            part = flat[start : start + _CHUNK].to(torch.float64)
            finite = part.isfinite()
            if bad := int(part.numel() - finite.sum()):
                not_finite += bad
                part = torch.where(finite, part, torch.zeros_like(part))
            total += float(part.sum())
            square += float(part.square().sum())
            least, most = min(least, float(part.min())), max(most, float(part.max()))
            projections += signs(start, part.numel()) @ part
        count = max(flat.numel(), 1)
        return {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "norm": square**0.5,
            "mean": total / count,
            "least": least if flat.numel() else 0.0,
            "most": most if flat.numel() else 0.0,
            "not_finite": not_finite,
            "projections": projections.tolist(),
        }


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _flat(tensor: Any) -> Any:
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.to("cpu").reshape(-1)


# Most tensors fit one chunk, and signs take longer than the sums.
_first_signs: dict[int, Any] = {}


def signs(start: int, count: int) -> Any:
    """Signs (PROJECTIONS, count) of the elements from ``start``: the same in every process."""
    if start == 0:
        size = 1 << max(count - 1, 1).bit_length()
        if size not in _first_signs:
            _first_signs.clear()
            _first_signs[size] = _signs(0, size)
        return _first_signs[size][:, :count]
    return _signs(start, count)


def _signs(start: int, count: int) -> Any:
    """By the finaliser of SplitMix64 (Steele, Lea, Flood: OOPSLA 2014) of the element's number.

    Shifts to the right carry the sign; that does as well here, and int64 has no other.
    """
    number = torch.arange(start + 1, start + count + 1, dtype=torch.int64, device="cpu")
    number = number * -7046029254386353131  # 0x9E3779B97F4A7C15
    number = (number ^ (number >> 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    number = (number ^ (number >> 27)) * -7723592293110705685  # 0x94D049BB133111EB
    number = number ^ (number >> 31)
    bits = torch.arange(PROJECTIONS, dtype=torch.int64, device="cpu").unsqueeze(1)
    return 1.0 - 2.0 * ((number >> (bits + 8)) & 1).to(torch.float64)
