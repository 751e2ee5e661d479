"""Options that a command receives as one argument."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

Decorator = Callable[[Callable[..., Any]], Any]


def gather_options(into: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Add options; the command receives what ``make`` makes of them as the argument ``into``.

    ``make`` takes their values by name. The help lists them in this order, in one section.
    """
    names = tuple(inspect.signature(make).parameters)

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def gather(**values: Any) -> Any:
            own = {name: values.pop(name) for name in names}
            return command(**{into: make(**own)}, **values)

        before = len(getattr(command, "__click_params__", ()))
        decorated: Callable[..., Any] = gather
        for option in reversed(options):
            decorated = option(decorated)
        for parameter in vars(decorated)["__click_params__"][before:]:
            vars(parameter).setdefault("section", into)
        return decorated

    return add
