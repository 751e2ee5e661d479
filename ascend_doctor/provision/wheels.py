"""pip and wheels: requirements resolved once to files, which a prefix keeps and installs from."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from ascend_doctor.errors import DataError
from ascend_doctor.provision.linked import READ, Declared, declared, linked, reference
from ascend_doctor.provision.lock import Prefix, Source, Wheel
from ascend_doctor.provision.running import Runner

_MAKE, _RESOLVE, _INSTALL = 600.0, 7200.0, 3600.0
# The first day that a zip archive can name.
_EPOCH = "315532800"
_STRING = r"\"[^\"]*\"|'[^']*'"
_BUILD_REQUIRES = re.compile(
    rf"^\[build-system\]\s*?\n(?:(?!\[).*\n)*?requires\s*=\s*(\[(?:{_STRING}|[^\]\"'])*\])",
    re.MULTILINE,
)


class Download(NamedTuple):
    """A wheel file, and what it was built from where the index has only that."""

    file: Path
    source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class Pip:
    """pip of a virtual environment. ``base`` is the interpreter that makes the environment."""

    place: Path
    base: str
    runner: Runner

    @property
    def python(self) -> str:
        return str(self.place / "bin" / "python")

    def exists(self) -> bool:
        return os.access(self.python, os.X_OK)

    def make(self) -> None:
        """Raises CommandError."""
        title = f"python -m venv {self.place}"
        self.runner.run([self.base, "-m", "venv", str(self.place)], title=title, deadline=_MAKE)

    def resolve(
        self, scratch: Path, requirements: Iterable[str], constraints: Iterable[str]
    ) -> list[Download]:
        """All that the requirements need, built where there is no wheel.

        What pip has already downloaded is in its cache. Raises CommandError.
        """
        bounds = scratch / "constraints.txt"
        files = self._empty(scratch)
        bounds.write_text("".join(f"{one}\n" for one in constraints), "utf-8")
        self._download(scratch, requirements, ["-c", str(bounds)])
        return [self._built(scratch, one) for one in sorted(files.iterdir())]

    def download(self, scratch: Path, missing: Sequence[Wheel]) -> list[Download]:
        """Exactly these files, or what is built from exactly their sources.

        Raises CommandError where the indexes have others.
        """
        files = self._empty(scratch)
        lines = [f"{one.name}=={one.version} --hash=sha256:{_archive(one)}" for one in missing]
        options = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
        if built := [one.name for one in missing if one.source]:
            options += ["--no-binary", ",".join(built)]
        self._download(scratch, lines, options)
        return [self._built(scratch, one) for one in sorted(files.iterdir())]

    def _empty(self, scratch: Path) -> Path:
        shutil.rmtree(scratch, ignore_errors=True)
        files = scratch / "files"
        files.mkdir(parents=True)
        return files

    def _download(self, scratch: Path, lines: Iterable[str], options: list[str]) -> None:
        wanted = scratch / "requirements.txt"
        wanted.write_text("".join(f"{one}\n" for one in lines), "utf-8")
        arguments = ["download", "-q", *options, "-d", str(scratch / "files"), "-r", str(wanted)]
        self._pip(arguments, "pip download", _RESOLVE, scratch)

    def _built(self, scratch: Path, file: Path) -> Download:
        """A wheel as it is; of a source distribution its wheel."""
        if file.suffix == ".whl":
            return Download(file)
        place = scratch / "built" / file.name
        arguments = ["wheel", "-q", "--no-deps", "-w", str(place), str(file)]
        self._pip(arguments, f"pip wheel {file.name}", _RESOLVE, scratch)
        (wheel,) = place.glob("*.whl")
        return Download(wheel, Source(file=file.name, sha256=hashed(file)))

    def install(self, files: Iterable[Path], *, over: bool) -> None:
        """Install wheels and nothing else. ``over``: also where that version is there already."""
        forced = ["--force-reinstall"] if over else []
        paths = [str(one) for one in files]
        self._pip(["install", "-q", "--no-index", "--no-deps", *forced, *paths], "pip install")

    def install_editable(self, folder: Path, scratch: Path) -> None:
        """Install a checkout by reference, built with what the environment has.

        Where there is nothing to build, as in MindSpeed, no build is started: setuptools looks at
        every file once for every package then, which takes it 20 s there.
        """
        told = self._declared(folder)
        if told is None:
            options = ["--no-index", "--no-deps", "--no-build-isolation"]
            self._pip(["install", "-q", *options, "-e", str(folder)], f"pip install -e {folder}")
            return
        self.install([linked(scratch, told, folder)], over=True)
        for info in self.place.glob(f"lib/python3*/site-packages/{told.stem}.dist-info"):
            (info / "direct_url.json").write_bytes(reference(folder))

    def _declared(self, folder: Path) -> Declared | None:
        """What setup.py declares; None where there is more to do than to point to the folder."""
        if (folder / "pyproject.toml").is_file() or not (folder / "setup.py").is_file():
            return None
        env = {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [self.python, "-W", "ignore", "-c", READ, str(folder)]
        answer = self.runner.run(command, title="setup.py", deadline=_MAKE, env=env)
        return declared(answer)

    def _pip(
        self,
        arguments: list[str],
        title: str,
        deadline: float = _INSTALL,
        scratch: Path | None = None,
    ) -> None:
        # Without a pyproject.toml older pips call "setup.py develop", with which setuptools from
        # 80 on starts another pip that does ask the indexes; pips that know only PEP 517 have no
        # such option and ignore the variable.
        env = {"PIP_USE_PEP517": "1"}
        if scratch is not None:
            # pip unpacks and downloads below TMPDIR; beside the target nothing is copied twice,
            # and a killed pip leaves its remains where the next setup clears them.
            env["TMPDIR"] = str(scratch)
            # One date in all archives: most sources then give the same wheel each time.
            env["SOURCE_DATE_EPOCH"] = _EPOCH
        self.runner.run(
            [self.python, "-m", "pip", *arguments], title=title, deadline=deadline, env=env
        )


def kept(prefix: Prefix, wheel: Wheel) -> Path:
    """Where a prefix keeps a wheel."""
    return prefix.wheels / wheel.sha256 / wheel.file


def _archive(wheel: Wheel) -> str:
    """The hash of what the index has."""
    return wheel.source.sha256 if wheel.source else wheel.sha256


def keep(prefix: Prefix, files: Iterable[Download]) -> tuple[Wheel, ...]:
    """Move wheel files into the prefix; gives what they are, by name. Raises OSError."""
    found = []
    for file, source in files:
        wheel = described(file, source)
        place = kept(prefix, wheel)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)
        found.append(wheel)
    return tuple(sorted(found, key=lambda one: one.name))


def described(file: Path, source: Source | None = None) -> Wheel:
    """Name, version and hash of a wheel file. Raises DataError for a name that is no wheel's."""
    name, version = named(file)
    return Wheel(name=name, version=version, file=file.name, sha256=hashed(file), source=source)


def named(file: Path) -> tuple[str, str]:
    """Normalised name and version of a wheel file. Raises DataError."""
    try:
        name, version, _, _ = parse_wheel_filename(file.name)
    except InvalidWheelFilename as error:
        raise DataError(f"{file}: {error}") from error
    return str(name), str(version)


def hashed(file: Path) -> str:
    """SHA-256 of a file. Raises OSError."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def asked_by(folder: Path) -> Iterator[str]:
    """What an editable checkout needs: its requirements file, and what building it takes.

    An editable install without build isolation reaches for no index, so that the build
    requirements of PEP 518 have to be in the environment.
    """
    for name in ("requirements-npu.txt", "requirements.txt"):
        if (folder / name).is_file():
            yield f"-r {shlex.quote(str(folder / name))}"
            break
    project = folder / "pyproject.toml"
    text = project.read_text("utf-8", "replace") if project.is_file() else ""
    listed = _BUILD_REQUIRES.search(text)
    yield from ast.literal_eval(listed[1]) if listed else ("setuptools>=64", "wheel")
