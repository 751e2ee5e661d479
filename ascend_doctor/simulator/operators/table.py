"""The table of operators that torch_npu adds to torch, each computed here on host tensors."""

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {}


class NotSimulatedError(RuntimeError):
    """An option of an operator that is not computed here: it fails by name, nothing is guessed."""

    def __init__(self, operator: str, option: str) -> None:
        super().__init__(f"{operator}: {option} is not simulated")


def implements(*names: str) -> Callable[[Function], Function]:
    """Enter a function as the computation of the named operators, as `namespace::name.overload`."""

    def enter(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return enter
