"""Names of modules and parameters: their paths in the model that was called, without wrappers."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

# What torch's wrappers call their only child.
_INSIDE = frozenset({"_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
_WRAPPED = _INSIDE | {"module"}


def _only_child(module: Any) -> str:
    names = [name for name, _ in module.named_children()]
    return names[0] if len(names) == 1 else ""


def _join(base: str, path: str) -> str:
    return ".".join([base, *(part for part in path.split(".") if part and part not in _INSIDE)])


class _LivingNames:
    """Names of objects, valid while they live; never compares objects by equality."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[Any, str]] = {}

    def get(self, thing: Any) -> str | None:
        reference, name = self._names.get(id(thing), (None, ""))
        return name if reference is not None and reference() is thing else None

    def set(self, thing: Any, name: str) -> None:
        if self.get(thing) is None:
            self._names[id(thing)] = (weakref.ref(thing), name)

    def living(self) -> Iterator[tuple[str, Any]]:
        for reference, name in tuple(self._names.values()):
            if (thing := reference()) is not None:
                yield name, thing


class Naming:
    """Modules by the models that they are in: ``Model.layers.0.mlp``.

    The path leaves out a wrapper whose only child is ``module``, as DistributedDataParallel,
    and torch's own inside a model, as of FSDP and of checkpointed activations. The second model
    of a class is ``Model#2``.
    """

    def __init__(self) -> None:
        self._modules = _LivingNames()
        self._parameters = _LivingNames()
        self._copies = _LivingNames()
        self._models: Counter[str] = Counter()

    def name(self, module: Any, callers: list[Any]) -> str:
        """The name of a module that is called within ``callers``, outermost first."""
        name = self._modules.get(module)
        if name is None and callers:
            # It may be newer than its model's first call.
            self._walk(callers[0])
            name = self._modules.get(module)
            if name is None:
                name = f"{self.name(callers[-1], callers[:-1])}.<{type(module).__name__}>"
                self._modules.set(module, name)
        if name is None:
            self._walk(module)
            name = self._modules.get(module)
        return name or type(module).__name__

    def parameter(self, parameter: Any) -> str | None:
        """Also for the copy in single precision that Megatron-LM steps."""
        name = self._parameters.get(parameter) or self._copies.get(parameter)
        if name is None:
            for known, weight in self.parameters():
                if getattr(weight, "main_param", None) is parameter:
                    self._copies.set(parameter, known)
                    return known
        return name

    def parameters(self) -> Iterator[tuple[str, Any]]:
        return self._parameters.living()

    def _walk(self, root: Any) -> None:
        model = root
        while (inside := _only_child(model)) in _WRAPPED:
            if self._modules.get(model) is None:
                self._modules.set(model, self._model(model))
            model = getattr(model, inside)
        base = self._modules.get(model) or self._model(model)
        for path, module in model.named_modules():
            name = _join(base, path)
            wraps = _only_child(module) in _INSIDE
            self._modules.set(module, f"{name}.<{type(module).__name__}>" if wraps else name)
        for path, parameter in model.named_parameters():
            self._parameters.set(parameter, _join(base, path))

    def _model(self, model: Any) -> str:
        name = type(model).__name__
        self._models[name] += 1
        return name if self._models[name] == 1 else f"{name}#{self._models[name]}"
