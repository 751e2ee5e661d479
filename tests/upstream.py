"""Files of other projects that tests compare with, where a variable names a clone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def upstream(variable: str, path: str) -> str:
    """A file of a repository whose folder, with or without a work tree, the variable names."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no clone with {path}")
    if (Path(folder) / path).is_file():
        return (Path(folder) / path).read_text("utf-8")
    return subprocess.run(
        ["git", "-C", folder, "show", f"HEAD:{path}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
