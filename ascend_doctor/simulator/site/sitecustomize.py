"""Gives torch_npu the kernels of the simulated NPU as soon as it has been imported.

Runs when an interpreter starts with the stand-in CANN tree on PYTHONPATH. It imports nothing of
torch itself, and then gives way to the sitecustomize that it hides, if there is one.
"""
# ruff: noqa: INP001 - no package: the interpreter under examination looks for this name

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

Spec = importlib.machinery.ModuleSpec


class _WithKernels(importlib.abc.Loader):
    """torch_npu's own loader, and our kernels after it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Spec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        import ascend_simulator  # type: ignore[import-not-found]  # noqa: PLC0415 - needs torch_npu

        ascend_simulator.install()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


class _TorchNpu(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Spec | None:
        if fullname != "torch_npu":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _WithKernels(spec.loader)
        return spec


def _hidden_sitecustomize() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _TorchNpu())
_hidden_sitecustomize()
