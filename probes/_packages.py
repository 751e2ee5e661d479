"""Where packages are that nothing imports yet."""

from __future__ import annotations

import importlib.util


def find_folder(name: str) -> str | None:
    """The folder that an import would take. Only what stands above the last dot is imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return folders[0] if folders else None
