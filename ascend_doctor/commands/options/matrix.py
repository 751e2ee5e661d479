"""The option that adds a site's own rows to the matrix, shared by the commands."""

import os
from pathlib import Path

from ascend_doctor.commands.options import repeated
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog

matrix_option = repeated(
    "--matrix",
    "overlays",
    metavar="DIR",
    type=InputFile(),
    help="Folder with rows of your site; repeatable. ASCEND_DOCTOR_MATRIX names more.",
)


def catalog(overlays: tuple[str, ...]) -> Catalog:
    """The matrix and the site's folders; last wins. Raises DataError: absent, or without rows."""
    named = [word for word in os.environ.get("ASCEND_DOCTOR_MATRIX", "").split(":") if word]
    folders = [Path(folder) for folder in (*named, *overlays)]
    for folder in folders:
        if not os.path.isdir(folder):
            raise DataError(f"{folder}: no such folder; --matrix takes a folder like matrices/")
        if not any(True for pattern in ("*.yaml", "*/*.yaml") for _ in folder.glob(pattern)):
            raise DataError(f"{folder}: no YAML in it; --matrix takes a folder like matrices/")
    return Catalog(folders)
