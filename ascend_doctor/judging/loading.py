"""Imports the modules of checks, which registers them."""

import functools
import importlib
import os


@functools.cache
def import_below(package: str, folder: str, *, without: str = "") -> None:
    """Import a package's modules, except one folder; pkgutil takes a third of level 0's imports."""
    for subject in sorted(os.listdir(folder)):
        path = os.path.join(folder, subject)
        if subject in {without, "__pycache__"} or not os.path.isdir(path):
            continue
        for file in sorted(os.listdir(path)):
            name, extension = os.path.splitext(file)
            if extension == ".py" and name != "__init__":
                importlib.import_module(f"{package}.{subject}.{name}")
