"""Where packages are that nothing imports yet."""

from __future__ import annotations

import importlib.util
import os


def find_folder(name: str) -> str | None:
    """The folder that an import would take. Only what stands above the last dot is imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return folders[0] if folders else None


def has_module(name: str) -> bool:
    """Whether the file of a module is there; nothing is imported."""
    top, *parts = name.split(".")
    path = os.path.join(find_folder(top) or os.devnull, *parts)
    return os.path.isfile(f"{path}.py") or os.path.isfile(os.path.join(path, "__init__.py"))
