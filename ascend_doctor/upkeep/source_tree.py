"""The Python files of a component's release: from a repository that is at hand, or from a wheel."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.provision.repository import LocalRepository
from ascend_doctor.provision.running import Runner
from ascend_doctor.provision.sources import RepositorySource

_LARGEST = 4 << 20


@dataclass(frozen=True, kw_only=True)
class SourceTree:
    """``files`` are texts by path, which begins with the top module; ``name`` is the source."""

    name: str
    files: Mapping[str, str] = field(repr=False)

    def module(self, dotted: str) -> tuple[str, str] | None:
        stem = dotted.replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if path in self.files:
                return path, self.files[path]
        return None

    def has_folder(self, dotted: str) -> bool:
        """Whether a package of that name has modules, with or without an ``__init__.py``."""
        stem = dotted.replace(".", "/") + "/"
        return any(path.startswith(stem) for path in self.files)


def read_release(source: RepositorySource, ref: str, folders: tuple[str, ...]) -> SourceTree:
    """The Python files below folders of a local repository at a ref.

    ``folders`` may begin with ``src/``, which is not part of a module's name. Raises
    CommandError if the repository lacks the ref or all of the folders.
    """
    repository = LocalRepository(folder=Path(source.url), runner=Runner())
    texts = repository.texts(ref, folders, ending=".py", limit=_LARGEST)
    files = {path.removeprefix("src/"): text for path, text in texts.items()}
    return SourceTree(name=f"{Path(source.url).name}@{ref}", files=files)


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
