"""Records a job as soon as it has imported torch.

Runs when an interpreter starts with this folder on PYTHONPATH. It imports nothing itself, and then
gives way to the next sitecustomize that it hides, which may do the same.
"""
# ruff: noqa: INP001 - no package: the interpreter of the job looks for this name

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
_MARK = "_ascend_doctor_sites"
_HERE = os.path.dirname(os.path.abspath(__file__))


class _WithRecorder(importlib.abc.Loader):
    """torch's own loader, and the recorder after it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Spec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        import ascend_recorder  # type: ignore[import-not-found]

        ascend_recorder.install()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


class _Torch(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Spec | None:
        if fullname != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _WithRecorder(spec.loader)
        return spec


def _run_next_sitecustomize() -> None:
    """The first one in the path that did not run; that may in turn come back to this one."""
    executed: set[str] = sys.__dict__.setdefault(_MARK, {_HERE})
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") not in executed]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        executed.add(os.path.dirname(os.path.abspath(spec.origin or "")))
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if not hasattr(sys, _MARK):
    sys.meta_path.insert(0, _Torch())
_run_next_sitecustomize()
