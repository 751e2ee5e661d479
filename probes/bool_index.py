"""Reads and writes through boolean masks on one device, and compares with plain Python.

Run it alone: ``python probes/bool_index.py --device npu``. torch_npu expands ``x[mask]`` with the
operator NonzeroV2, which has crashed and poisoned the context on some stacks
(https://github.com/Ascend/pytorch/issues/153). ``where`` is what such code is replaced with, by the
same values. Each case ends in a process of its own should it fail. Recorded: ``cases`` by name,
with ``differ`` (how many elements), ``first`` (one of them) and ``error``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import _cases
import _probe
from _probe import Probe

SHAPES = ((2, 16), (4, 4096), (1, 1), (0, 8))
# Mixed, nothing, everything: every third element, none, all.
MASKS = {"mixed": (3, 1), "empty": (1, 0), "full": (1, 1)}
REPEATS = 200
CASE_SECONDS = {"npu": 60.0, "cuda": 30.0, "cpu": 30.0}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda tensor: tensor,
    "every second column": lambda tensor: tensor[:, ::2],
    "transposed": lambda tensor: tensor.t(),
}


def body(probe: Probe) -> None:
    """Boolean indexing on one device, by value, each case apart."""
    outcomes = _cases.run(probe, __file__, list(CASES), limit=CASE_SECONDS[probe.device])
    for name, one in outcomes.items():
        if "differ" in one:
            probe.expect(f"{name}: {one['first']}", f"{one['differ']} wrong", "0 wrong")


class Comparison:
    """Counts what differs from plain Python."""

    def __init__(self) -> None:
        self.differ = 0
        self.first = "all elements"

    def add(self, what: str, got: Any, wanted: list[Any]) -> None:
        values = got.detach().cpu().reshape(-1).tolist()
        wrong = abs(len(values) - len(wanted))
        wrong += sum(one != other for one, other in zip(values, wanted, strict=False))
        if wrong and not self.differ:
            self.first = f"{what} begins {values[:5]} instead of {wanted[:5]}"
        self.differ += wrong

    def result(self) -> dict[str, Any]:
        return {"differ": self.differ, "first": self.first}


class Indexing:
    """A tensor and a mask on the device, and the same as lists."""

    def __init__(
        self, torch: Any, place: str, shape: tuple[int, int], mask: str, view: str
    ) -> None:
        rows, columns = shape
        every, chosen = MASKS[mask]
        flat = torch.arange(rows * columns).reshape(shape)
        flags = flat % every < chosen
        self.what = f"{mask} mask, {rows} x {columns}, {view}"
        self.tensor = VIEWS[view](flat.to(place))
        self.mask = VIEWS[view](flags.to(place))
        self.values: list[int] = VIEWS[view](flat).reshape(-1).tolist()
        self.flags: list[bool] = VIEWS[view](flags).reshape(-1).tolist()
        self.pairs = list(zip(self.values, self.flags, strict=True))


def subjects(torch: Any, place: str) -> Iterator[Indexing]:
    for shape in SHAPES:
        for mask in MASKS:
            for view in VIEWS:
                yield Indexing(torch, place, shape, mask, view)


def read(torch: Any, place: str) -> dict[str, Any]:
    found = Comparison()
    for one in subjects(torch, place):
        wanted = [value for value, flag in one.pairs if flag]
        found.add(f"x[mask], {one.what}", one.tensor[one.mask], wanted)
    return found.result()


def write(torch: Any, place: str) -> dict[str, Any]:
    """A scalar into what the mask leaves out, as Megatron's vocabulary-parallel code does."""
    found = Comparison()
    for one in subjects(torch, place):
        one.tensor[~one.mask] = -7
        found.add(f"x[~mask] = -7, {one.what}", one.tensor, filled(one))
    return found.result()


def filled(one: Indexing) -> list[int]:
    return [value if flag else -7 for value, flag in one.pairs]


def vector(torch: Any, place: str) -> dict[str, Any]:
    """A value of its own into each chosen element: by assignment and by index_put_."""
    found = Comparison()
    for one in subjects(torch, place):
        count = sum(one.flags)
        fresh = iter(range(1000, 1000 + count))
        wanted = [next(fresh) if flag else value for value, flag in one.pairs]
        values = torch.arange(1000, 1000 + count).to(place)
        one.tensor[one.mask] = values
        found.add(f"x[mask] = vector, {one.what}", one.tensor, wanted)
        one.tensor.index_put_((one.mask,), values, accumulate=True)
        twice = [value * (1 + flag) for value, flag in zip(wanted, one.flags, strict=True)]
        found.add(f"index_put_ with accumulate, {one.what}", one.tensor, twice)
    return found.result()


def rows(torch: Any, place: str) -> dict[str, Any]:
    """Whole rows of a float tensor, chosen by a mask of the leading dimensions."""
    found = Comparison()
    for mask, (every, chosen) in MASKS.items():
        tensor = torch.arange(4 * 16 * 32.0).reshape(4, 16, 32)
        flags = torch.arange(4 * 16).reshape(4, 16) % every < chosen
        there, flags_there = tensor.to(place), flags.to(place)
        flat = flags.reshape(-1).tolist()
        values = tensor.reshape(64, 32).tolist()
        pairs = list(zip(values, flat, strict=True))
        kept = [value for row, flag in pairs if flag for value in row]
        found.add(f"rows of a {mask} mask", there[flags_there], kept)
        there[flags_there, :] = 0.0
        zeroed = [0.0 if flag else value for row, flag in pairs for value in row]
        found.add(f"rows set to 0, {mask} mask", there, zeroed)
    return found.result()


def backward(torch: Any, place: str) -> dict[str, Any]:
    """The gradient of a masked read, and a masked write while gradients are computed."""

    class Masked(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, tensor: Any, mask: Any) -> Any:
            context.save_for_backward(mask)
            return tensor.clone()

        @staticmethod
        def backward(context: Any, gradient: Any) -> tuple[Any, None]:
            (mask,) = context.saved_tensors
            gradient = gradient.clone()
            gradient[mask] = 0.0
            return gradient, None

    found = Comparison()
    for one in subjects(torch, place):
        leaf = one.tensor.float().requires_grad_()
        (leaf[one.mask] ** 2).sum().backward()
        wanted = [2.0 * value * flag for value, flag in one.pairs]
        found.add(f"gradient of x[mask], {one.what}", leaf.grad, wanted)
        leaf.grad = None
        Masked.apply(leaf, one.mask).sum().backward()
        wanted = [0.0 if flag else 1.0 for flag in one.flags]
        found.add(f"x[mask] = 0 in a backward, {one.what}", leaf.grad, wanted)
    return found.result()


def repeated(torch: Any, place: str) -> dict[str, Any]:
    """Between matrix products, often: what only fails end to end."""
    found = Comparison()
    one = Indexing(torch, place, (4, 4096), "mixed", "contiguous")
    matrix = torch.eye(64, device=place)
    for _ in range(REPEATS):
        matrix = matrix @ matrix
        one.tensor[~one.mask] = -7
    found.add("repeated writes", one.tensor, filled(one))
    found.add("products of identities", matrix.sum(), [64.0])
    return found.result()


def where(torch: Any, place: str) -> dict[str, Any]:
    """The same writes without an index: torch.where and masked_fill."""
    found = Comparison()
    for one in subjects(torch, place):
        other = torch.full_like(one.tensor, -7)
        found.add(f"where, {one.what}", torch.where(one.mask, one.tensor, other), filled(one))
        found.add(f"masked_fill, {one.what}", one.tensor.masked_fill(~one.mask, -7), filled(one))
    return found.result()


CASES: dict[str, _cases.Case] = {
    "where": where,
    "read": read,
    "write": write,
    "vector": vector,
    "rows": rows,
    "backward": backward,
    "repeated": repeated,
}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="bool-index")
