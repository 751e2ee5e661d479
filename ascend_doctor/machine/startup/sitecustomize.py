"""Loads what the doctor has put into a process, and then the sitecustomize that it hides.

Runs with this folder, or a copy, on PYTHONPATH. Of the hooks on the path ``ascend_stall`` is loaded
at once, the others behind the import that they need. Standard library only, any Python 3.
"""
# ruff: noqa: INP001 - no package: the interpreter of the job looks for this name

from __future__ import annotations

import importlib
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
_AT_ONCE = "ascend_stall"
_BEHIND = {"torch": "ascend_recorder", "torch_npu": "ascend_simulator"}


class _HookLoader(importlib.abc.Loader):
    """A module's loader, followed by our ``install()``."""

    def __init__(self, loader: Any, hook: str) -> None:
        self.loader = loader
        self.hook = hook

    def create_module(self, spec: Spec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        importlib.import_module(self.hook).install()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


class _HookFinder(importlib.abc.MetaPathFinder):
    def __init__(self, hooks: dict[str, str]) -> None:
        self.hooks = hooks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Spec | None:
        if fullname not in self.hooks:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _HookLoader(spec.loader, self.hooks[fullname])
        return spec


def _load_hooks() -> None:
    find = importlib.machinery.PathFinder.find_spec
    hooks = {module: hook for module, hook in _BEHIND.items() if find(hook)}
    if hooks:
        sys.meta_path.insert(0, _HookFinder(hooks))
    if find(_AT_ONCE):
        importlib.import_module(_AT_ONCE).install()


def _run_next_sitecustomize() -> None:
    """The first unrun one in the path; a copy of this one repeats the search."""
    executed: set[str] = sys.__dict__.setdefault(_MARK, set())
    executed.add(os.path.dirname(os.path.abspath(__file__)))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") not in executed]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        executed.add(os.path.dirname(os.path.abspath(spec.origin or "")))
        # As if it had been the first: programs use this name.
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if not hasattr(sys, _MARK):
    _load_hooks()
_run_next_sitecustomize()
