"""Reads and writes through boolean masks on one device, and compares with plain Python.

torch_npu expands ``x[mask]`` with the operator NonzeroV2, which has crashed and poisoned the
context on some stacks (https://github.com/Ascend/pytorch/issues/153). ``where`` is what such code
is replaced with, by the same values. Each case ends in a process of its own should it fail.
Recorded: ``cases`` by name, with ``differ`` (how many elements), ``first`` (one of them) and
``error``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import _cases
import _probe
from _probe import Probe

MANIFEST = {
    "order": 90,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["device"],
    "forked": True,
    "does": (
        "reads and writes through boolean masks, also inside a backward, and `torch.where` for the "
        "same"
    ),
    "on_cpu": "the same",
}

# A small and a large one, one element, and none.
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
    outcomes = _cases.run(
        probe, __file__, list(CASES), limit=CASE_SECONDS[probe.device], cases=CASES
    )
    for name, outcome in outcomes.items():
        if "differ" in outcome:
            probe.expect(f"{name}: {outcome['first']}", f"{outcome['differ']} wrong", "0 wrong")


class Comparison:
    """Counts what differs from plain Python."""

    def __init__(self) -> None:
        self.differ = 0
        self.first = "all elements"

    def add(self, what: str, got: Any, expected: list[Any]) -> None:
        values = got.detach().cpu().reshape(-1).tolist()
        wrong = abs(len(values) - len(expected))
        wrong += sum(value != other for value, other in zip(values, expected, strict=False))
        if wrong and not self.differ:
            self.first = f"{what} begins {values[:5]} instead of {expected[:5]}"
        self.differ += wrong

    def result(self) -> dict[str, Any]:
        return {"differ": self.differ, "first": self.first}


class Indexing:
    """A tensor and a mask on the device, and the same as lists."""

    def __init__(
        self, torch: Any, device: str, shape: tuple[int, int], mask: str, view: str
    ) -> None:
        rows, columns = shape
        every, chosen = MASKS[mask]
        flat = torch.arange(rows * columns).reshape(shape)
        flags = flat % every < chosen
        self.what = f"{mask} mask, {rows} x {columns}, {view}"
        self.tensor = VIEWS[view](flat.to(device))
        self.mask = VIEWS[view](flags.to(device))
        self.values: list[int] = VIEWS[view](flat).reshape(-1).tolist()
        self.flags: list[bool] = VIEWS[view](flags).reshape(-1).tolist()
        self.pairs = list(zip(self.values, self.flags, strict=True))


def subjects(torch: Any, device: str) -> Iterator[Indexing]:
    for shape in SHAPES:
        for mask in MASKS:
            for view in VIEWS:
                yield Indexing(torch, device, shape, mask, view)


def read(torch: Any, device: str) -> dict[str, Any]:
    comparison = Comparison()
    for subject in subjects(torch, device):
        expected = [value for value, flag in subject.pairs if flag]
        comparison.add(f"x[mask], {subject.what}", subject.tensor[subject.mask], expected)
    return comparison.result()


def write(torch: Any, device: str) -> dict[str, Any]:
    """A scalar into what the mask leaves out, as Megatron's vocabulary-parallel code does."""
    comparison = Comparison()
    for subject in subjects(torch, device):
        subject.tensor[~subject.mask] = -7
        comparison.add(f"x[~mask] = -7, {subject.what}", subject.tensor, fill(subject))
    return comparison.result()


def fill(subject: Indexing) -> list[int]:
    return [value if flag else -7 for value, flag in subject.pairs]


def vector(torch: Any, device: str) -> dict[str, Any]:
    """A value of its own into each chosen element: by assignment and by index_put_."""
    comparison = Comparison()
    for subject in subjects(torch, device):
        count = sum(subject.flags)
        fresh = iter(range(1000, 1000 + count))
        expected = [next(fresh) if flag else value for value, flag in subject.pairs]
        values = torch.arange(1000, 1000 + count).to(device)
        subject.tensor[subject.mask] = values
        comparison.add(f"x[mask] = vector, {subject.what}", subject.tensor, expected)
        subject.tensor.index_put_((subject.mask,), values, accumulate=True)
        twice = [value * (1 + flag) for value, flag in zip(expected, subject.flags, strict=True)]
        comparison.add(f"index_put_ with accumulate, {subject.what}", subject.tensor, twice)
    return comparison.result()


def rows(torch: Any, device: str) -> dict[str, Any]:
    """Whole rows of a float tensor, chosen by a mask of the leading dimensions."""
    comparison = Comparison()
    for mask, (every, chosen) in MASKS.items():
        tensor = torch.arange(4 * 16 * 32.0).reshape(4, 16, 32)
        flags = torch.arange(4 * 16).reshape(4, 16) % every < chosen
        there, flags_there = tensor.to(device), flags.to(device)
        flat = flags.reshape(-1).tolist()
        values = tensor.reshape(64, 32).tolist()
        pairs = list(zip(values, flat, strict=True))
        left = [value for row, flag in pairs if flag for value in row]
        comparison.add(f"rows of a {mask} mask", there[flags_there], left)
        there[flags_there, :] = 0.0
        zeroed = [0.0 if flag else value for row, flag in pairs for value in row]
        comparison.add(f"rows set to 0, {mask} mask", there, zeroed)
    return comparison.result()


def backward(torch: Any, device: str) -> dict[str, Any]:
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

    comparison = Comparison()
    for subject in subjects(torch, device):
        leaf = subject.tensor.float().requires_grad_()
        (leaf[subject.mask] ** 2).sum().backward()
        expected = [2.0 * value * flag for value, flag in subject.pairs]
        comparison.add(f"gradient of x[mask], {subject.what}", leaf.grad, expected)
        leaf.grad = None
        Masked.apply(leaf, subject.mask).sum().backward()
        expected = [0.0 if flag else 1.0 for flag in subject.flags]
        comparison.add(f"x[mask] = 0 in a backward, {subject.what}", leaf.grad, expected)
    return comparison.result()


def repeat(torch: Any, device: str) -> dict[str, Any]:
    """Between matrix products, often: what only fails end to end."""
    comparison = Comparison()
    subject = Indexing(torch, device, (4, 4096), "mixed", "contiguous")
    matrix = torch.eye(64, device=device)
    for _ in range(REPEATS):
        matrix = matrix @ matrix
        subject.tensor[~subject.mask] = -7
    comparison.add("repeated writes", subject.tensor, fill(subject))
    comparison.add("products of identities", matrix.sum(), [64.0])
    return comparison.result()


def where(torch: Any, device: str) -> dict[str, Any]:
    """The same writes without an index: torch.where and masked_fill."""
    comparison = Comparison()
    for subject in subjects(torch, device):
        other = torch.full_like(subject.tensor, -7)
        comparison.add(
            f"where, {subject.what}",
            torch.where(subject.mask, subject.tensor, other),
            fill(subject),
        )
        comparison.add(
            f"masked_fill, {subject.what}",
            subject.tensor.masked_fill(~subject.mask, -7),
            fill(subject),
        )
    return comparison.result()


CASES: dict[str, _cases.Case] = {
    "where": where,
    "read": read,
    "write": write,
    "vector": vector,
    "rows": rows,
    "backward": backward,
    "repeated": repeat,
}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="bool-index")
