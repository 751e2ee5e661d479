"""Where the forward passes of a training step first meet a number that is not finite.

Modules begin, hand tensors to a collective, and end, in the same order on all ranks of a stage.
Each rank sums up what it sees there: what comes in, what goes out, and what it gives to others
before sums spread it. So of several ranks the one with the earliest event is where it began. The
sums stay on the device until the step is over, and nothing that the training computes is touched.
Import it after torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.distributed import ProcessGroup

# Collectives that mix what ranks have, by their names in torch 2.1 to 2.14, with the place of what
# a rank gives. All functions of torch.distributed end here, whatever has replaced or bound them.
MIXING = {
    "allreduce": 0,
    "_reduce_scatter_base": 1,
    "reduce_scatter_single": 1,
    "reduce_scatter": 1,
    "_allgather_base": 1,
    "all_gather_single": 1,
    "alltoall_base": 1,
    "all_to_all_single": 1,
}


class Event(NamedTuple):
    """An event; forward passes and events are counted from 1.

    ``how``: "result" of the module; "between" the modules that it calls; "sent" to a collective by
    it; its "weight"; "received" from the stage before.
    """

    forward: int
    event: int
    module: str
    how: str


class Watch:
    """Watches the forward passes of ``model`` within a with statement.

    ``names`` are those of its modules in reports.
    """

    def __init__(self, model: Any, names: Callable[[str], str]) -> None:
        self._model = model
        self._names = {
            module: names(name) or type(module).__name__ for name, module in model.named_modules()
        }
        self._undo: list[Callable[[], None]] = []
        self._inside: list[str] = []
        self._forward = self._event = 0
        self._seen: list[tuple[Any, Event]] = []
        # What this forward pass has summed up already: most results are the next module's input.
        self._known: dict[int, tuple[Any, int]] = {}

    def __enter__(self) -> None:
        self._forward, self._seen = 0, []
        for module in self._names:
            begins = module.register_forward_pre_hook(self._begins, with_kwargs=True)
            self._undo += [begins.remove, module.register_forward_hook(self._ends).remove]
        for name, position in MIXING.items():
            if name in vars(ProcessGroup):
                self._undo.append(self._replace(name, position))

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()
        self._inside, self._known = [], {}

    def first(self) -> Event | None:
        """The first event with a number that is not finite; waits for the device once."""
        if not self._seen:
            return None
        finite = torch.stack([total for total, _ in self._seen]).isfinite().tolist()
        return None if all(finite) else self._seen[finite.index(False)][1]

    def _begins(self, module: Any, arguments: Any, options: Any) -> None:
        if module is self._model:
            self._forward, self._event, self._known = self._forward + 1, 0, {}
        elif not self._inside:
            # A backward pass computes it again.
            return
        self._event += 1
        name = self._names[module]
        # Later stages get it by set_input_tensor, and arguments are None there.
        self._note("received", name, getattr(module, "input_tensor", None))
        self._note("between", self._inside[-1] if self._inside else name, (arguments, options))
        if self._forward == 1:
            self._note("weight", name, tuple(module.parameters(recurse=False)))
        self._inside.append(name)

    def _ends(self, _module: Any, _arguments: Any, output: Any) -> None:
        if self._inside:
            self._event += 1
            self._note("result", self._inside.pop(), output)

    def _replace(self, name: str, position: int) -> Callable[[], None]:
        """Look at what this rank gives before the collective; the answer takes it back."""
        # Of a class, getattr gives a function that no object would bind.
        attribute, original = vars(ProcessGroup)[name], getattr(ProcessGroup, name)

        def note_and_call(group: Any, *arguments: Any, **options: Any) -> Any:
            if self._inside:
                self._event += 1
                self._note("sent", self._inside[-1], arguments[position : position + 1])
            return original(group, *arguments, **options)

        setattr(ProcessGroup, name, note_and_call)
        return lambda: setattr(ProcessGroup, name, attribute)

    def _note(self, how: str, module: str, values: Any) -> None:
        seen = Event(self._forward, self._event, module, how)
        for tensor in floating(values):
            known, version = self._known.get(id(tensor), (None, 0))
            if known is not tensor or version != tensor._version:  # noqa: SLF001 - in-place operators
                self._seen.append((tensor.detach().sum(dtype=torch.float32), seen))
            # Collectives write into what they are given.
            if how != "sent":
                self._known[id(tensor)] = (tensor, tensor._version)  # noqa: SLF001


def floating(values: Any) -> Iterator[Any]:
    """The tensors of floating point numbers in what a module takes or gives."""
    if isinstance(values, torch.Tensor):
        if values.is_floating_point():
            yield values
    elif isinstance(values, dict):
        yield from floating(tuple(values.values()))
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from floating(value)
