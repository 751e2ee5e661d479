"""Imports the modules of checks, which registers them."""

import functools
import importlib
import os


@functools.cache
def import_below(package: str, folder: str, *, without: str = "") -> None:
    """Import a package's modules, except folders of one name; pkgutil takes much longer."""
    for name in sorted(os.listdir(folder)):
        module, extension = os.path.splitext(name)
        if extension == ".py" and module != "__init__":
            importlib.import_module(f"{package}.{module}")
        elif not extension and name not in {without, "__pycache__"}:
            import_below(f"{package}.{name}", os.path.join(folder, name), without=without)
