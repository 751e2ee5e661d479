"""The Python files of a component's release: from a repository that is at hand, or from a wheel."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.running import Runner
from ascend_doctor.provision.sources import RepositorySource

# Larger files are data.
_LARGEST = 4 << 20


@dataclass(frozen=True, kw_only=True)
class SourceTree:
    """``files`` are texts by path, which begins with the top module; ``name`` says where from."""

    name: str
    files: Mapping[str, str] = field(repr=False)

    def module(self, dotted: str) -> tuple[str, str] | None:
        """Path and text of a module, or None."""
        stem = dotted.replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if path in self.files:
                return path, self.files[path]
        return None

    def has_folder(self, dotted: str) -> bool:
        """Whether a package of that name has modules, with or without an ``__init__.py``."""
        stem = dotted.replace(".", "/") + "/"
        return any(path.startswith(stem) for path in self.files)


def read_release(
    source: RepositorySource, ref: str, folders: tuple[str, ...], git: Git | None = None
) -> SourceTree:
    """The Python files below folders of a local repository at a ref.

    ``folders`` may begin with ``src/``, which is not part of a module's name. Raises
    CommandError where the repository lacks the ref or all of the folders.
    """
    with temporary() as scratch:
        archive = Path(scratch) / "tree.tar"
        (git or Git(runner=Runner())).archive(Path(source.url), ref, folders, archive)
        with tarfile.open(archive) as tar:
            files = dict(_texts(tar))
    return SourceTree(name=f"{Path(source.url).name}@{ref}", files=files)


def _texts(tar: tarfile.TarFile) -> Iterator[tuple[str, str]]:
    for member in tar:
        if member.isfile() and member.name.endswith(".py") and member.size <= _LARGEST:
            stream = tar.extractfile(member)
            if stream is not None:
                text = stream.read().decode("utf-8", "replace")
                yield member.name.removeprefix("src/"), text


def read_wheel(file: Path) -> SourceTree:
    """The Python files of a wheel. Raises DataError for what is no archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            files = {
                info.filename: archive.read(info).decode("utf-8", "replace")
                for info in archive.infolist()
                if info.filename.endswith(".py") and info.file_size <= _LARGEST
            }
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: {error}") from error
    return SourceTree(name=file.name, files=files)
