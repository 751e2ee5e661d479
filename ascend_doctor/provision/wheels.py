"""pip and wheels: requirements resolved once to files, which a prefix keeps and installs from."""

import ast
import errno
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.machine.files import open_regular
from ascend_doctor.provision.accepted import requires
from ascend_doctor.provision.editable_wheel import (
    READ,
    Declared,
    link_checkout,
    parse_declared,
    reference,
)
from ascend_doctor.provision.lock import LockedSource, Prefix, Wheel
from ascend_doctor.provision.running import CommandError, Runner
from ascend_doctor.provision.target import Target
from ascend_doctor.provision.uv import PipSettings, Uv, day_after, find_uv

_MAKE, _RESOLVE, _INSTALL = 600.0, 7200.0, 3600.0
# The first day of zip archives.
_EPOCH = "315532800"
_STRING = r"\"[^\"]*\"|'[^']*'"
# Python 3.10 cannot read TOML.
_BUILD_REQUIRES = re.compile(
    rf"^\[build-system\]\s*?\n(?:(?!\[).*\n)*?requires\s*=\s*(\[(?:{_STRING}|[^\]\"'])*\])",
    re.MULTILINE,
)


# pip 26.0 can exclude uploads after a day, and fails if an index has no days.
_DATED_PIP = 26
_OTHER_FILE = "DO NOT MATCH THE HASHES"
_NO_DATES = ("does not provide upload-time", "is missing an upload date")
# A documented index may be unreachable; ask it once, not for minutes.
IMPATIENT = ("--retries", "1", "--timeout", "20")


class UndatedError(DoctorError):
    """What an index had on a day cannot be told."""


class Download(NamedTuple):
    """A wheel file, and the source that it was built from."""

    file: Path
    source: LockedSource | None = None


class Pip(msgspec.Struct, frozen=True, kw_only=True):
    """pip of a virtual environment made by the interpreter ``base``.

    ``target``: the machine that it downloads for, if not this one.
    """

    folder: Path
    base: str
    runner: Runner
    target: Target | None = None

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def exists(self) -> bool:
        return os.access(self.python, os.X_OK)

    def make(self, *, beside: bool) -> None:
        """``beside``: packages of the base interpreter can be imported. Raises CommandError."""
        more = ["--system-site-packages"] if beside else []
        command = [self.base, "-m", "venv", *more, str(self.folder)]
        self.runner.run(command, title=f"python -m venv {self.folder}", deadline=_MAKE)

    def pin(
        self, scratch: Path, pins: Sequence[str], indexes: Mapping[str, Sequence[str]]
    ) -> list[Path]:
        """The files of exact versions, before the resolution.

        ``indexes`` are the documented ones of a pin, used only if the user's own lack it.
        Raises CommandError naming pin and index.
        """
        files = self._empty(scratch)
        self._download_pins(scratch, pins, ["--no-deps"], indexes)
        return sorted(files.iterdir())

    def _download_pins(
        self,
        scratch: Path,
        lines: Sequence[str],
        options: list[str],
        indexes: Mapping[str, Sequence[str]],
    ) -> None:
        try:
            self._download(scratch, lines, options)
        except CommandError as error:
            lacking = {pin: urls for pin, urls in indexes.items() if pin in error.output}
            if not lacking or _OTHER_FILE in error.whole:
                raise
            urls = dict.fromkeys(url for listed in lacking.values() for url in listed)
            more = [part for url in urls for part in ("--extra-index-url", url)]
            try:
                self._download(scratch, lines, [*options, *IMPATIENT, *more])
            except CommandError as again:
                raise _no_index(lacking, again) from error

    def resolve(
        self,
        scratch: Path,
        requirements: Iterable[str],
        constraints: Iterable[str],
        as_of: str = "",
    ) -> list[Download]:
        """All that the requirements need, built if a wheel is missing.

        Files of an index younger than ``as_of`` (ISO 8601) do not count; files of folders have
        no date. Raises CommandError, and UndatedError if an index has no dates.
        """
        bounds = scratch / "constraints.txt"
        files = self._empty(scratch)
        bounds.write_text("".join(f"{constraint}\n" for constraint in constraints), "utf-8")
        settings = self._settings()
        if as_of and settings.folder_index:
            raise UndatedError(f"{settings.folder_index} has no days of its files")
        uv = None if settings.unknown_to_uv else self.uv
        try:
            if uv is None:
                options = ["-c", str(bounds), *self._day_options(as_of)]
                self._download(scratch, requirements, options)
            else:
                lines = _write_lines(scratch, requirements)
                pins = uv.compile(scratch, lines, bounds, settings, day_after(as_of))
                self._download(scratch, pins, ["--no-deps"])
        except CommandError as error:
            if any(words in error.whole for words in _NO_DATES):
                raise UndatedError("an index has no days of its files") from error
            raise
        return [self._build(scratch, path) for path in sorted(files.iterdir())]

    @property
    def uv(self) -> Uv | None:
        """None without one, and for another machine, whose markers pip reads."""
        if self.target is None and (program := find_uv(self.runner.env)):
            return Uv(program=program, python=self.python, runner=self.runner)
        return None

    def _settings(self) -> PipSettings:
        command = [self.python, "-m", "pip", "config", "list"]
        return PipSettings.parse(self.runner.run(command, title="pip config", deadline=_MAKE))

    def _day_options(self, as_of: str) -> list[str]:
        """Options of pip for a day; updates pip for it. Raises UndatedError."""
        if not as_of:
            return []
        answer = self.runner.run(
            [self.python, "-m", "pip", "--version"], title="pip", deadline=_MAKE
        )
        match = re.match(r"pip (\d+)", answer)
        if match is None or int(match[1]) < _DATED_PIP:
            try:
                self._pip(["install", "-q", "--upgrade", f"pip>={_DATED_PIP}"], "pip install pip")
            except CommandError as error:
                raise UndatedError(f"no index has pip {_DATED_PIP}: {error.output}") from error
        return ["--uploaded-prior-to", f"{day_after(as_of)}T00:00:00Z"]

    def download(
        self, scratch: Path, missing: Sequence[Wheel], indexes: Mapping[str, Sequence[str]]
    ) -> list[Download]:
        """Exactly these files, or builds of their exact sources. Raises CommandError for others.

        ``indexes`` are as for ``pin``.
        """
        files = self._empty(scratch)
        lines = [
            f"{each.name}=={each.version} --hash=sha256:{(each.source or each).sha256}"
            for each in missing
        ]
        options = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
        if built := [wheel.name for wheel in missing if wheel.source]:
            options += ["--no-binary", ",".join(built)]
        self._download_pins(scratch, lines, options, indexes)
        return [self._build(scratch, path) for path in sorted(files.iterdir())]

    def _empty(self, scratch: Path) -> Path:
        shutil.rmtree(scratch, ignore_errors=True)
        files = scratch / "files"
        files.mkdir(parents=True)
        return files

    def _download(self, scratch: Path, lines: Iterable[str], options: list[str]) -> None:
        path = _write_lines(scratch, lines)
        if self.target:
            options = [*options, *self.target.download_options()]
        arguments = ["download", "-q", *options, "-d", str(scratch / "files"), "-r", str(path)]
        self._pip(arguments, "pip download", _RESOLVE, scratch)

    def _build(self, scratch: Path, file: Path) -> Download:
        if file.suffix == ".whl":
            return Download(file)
        wheel = self.make_wheel(file, scratch)
        return Download(wheel, LockedSource(file=file.name, sha256=hash_file(file)))

    def install_from_index(self, arguments: Sequence[str]) -> None:
        """Install requirements with dependencies. Raises CommandError."""
        self._pip(["install", "-q", *arguments], "pip install")

    def download_source(self, scratch: Path, pin: str, sha256: str = "") -> Path:
        """The source distribution of ``NAME==VERSION``; its setup.py may use this environment.

        Raises CommandError, also if the index has another than that of ``sha256``.
        """
        name, files = pin.partition("==")[0], self._empty(scratch)
        path = scratch / "requirements.txt"
        path.write_text(f"{pin} --hash=sha256:{sha256}\n" if sha256 else f"{pin}\n", "utf-8")
        options = ["--no-deps", "--no-build-isolation", "--no-binary", name]
        arguments = ["download", "-q", *options, "-d", str(files), "-r", str(path)]
        self._pip(arguments, f"pip download {pin}", _RESOLVE, scratch)
        (source,) = files.iterdir()
        return source

    def describe(self, folder: Path, scratch: Path) -> Path:
        """A wheel of a checkout's copy that declares what the checkout requires."""
        copy = scratch / folder.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return self.make_wheel(copy, scratch)

    def make_wheel(
        self, source: Path, scratch: Path, *options: str, variables: Mapping[str, str] | None = None
    ) -> Path:
        """The wheel of a source, by a build of pip with these options. Raises CommandError."""
        path = scratch / "built" / source.name
        shutil.rmtree(path, ignore_errors=True)
        arguments = ["wheel", "-q", "--no-deps", *options, "-w", str(path), str(source)]
        self._pip(arguments, f"pip wheel {source.name}", _RESOLVE, scratch, variables)
        (wheel,) = path.glob("*.whl")
        return wheel

    def install(self, files: Iterable[Path], *, over: bool) -> None:
        """Install only these wheels. ``over``: also if that version is there."""
        files = list(files)
        if uv := self.uv:
            # A prefix keeps a file, compared once, in a folder named by its SHA-256.
            in_store = re.compile("[0-9a-f]{64}").fullmatch
            digests = {
                file: name if in_store(name := file.parent.name) else hash_file(file)
                for file in files
            }
            uv.install(digests, self.folder / ".uv", over=over)
            return
        forced = ["--force-reinstall"] if over else []
        paths = [str(file) for file in files]
        self._pip(["install", "-q", "--no-index", "--no-deps", *forced, *paths], "pip install")

    def install_editable(self, folder: Path, scratch: Path) -> None:
        """Install a checkout by reference, built with the environment's packages.

        Without anything to build, as in MindSpeed, no build starts: setuptools would look at
        every file once for every package, which takes 20 s there.
        """
        declared = self._read_setup(folder)
        if declared is None:
            options = ["--no-index", "--no-deps", "--no-build-isolation"]
            self._pip(["install", "-q", *options, "-e", str(folder)], f"pip install -e {folder}")
            return
        self.install([link_checkout(scratch, declared, folder)], over=True)
        for info in self.folder.glob(f"lib/python3*/site-packages/{declared.stem}.dist-info"):
            (info / "direct_url.json").write_bytes(reference(folder))

    def _read_setup(self, folder: Path) -> Declared | None:
        """What setup.py declares; None if pointing to the folder is not enough."""
        if (folder / "pyproject.toml").is_file() or not (folder / "setup.py").is_file():
            return None
        env = {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [self.python, "-W", "ignore", "-c", READ, str(folder)]
        answer = self.runner.run(command, title="setup.py", deadline=_MAKE, env=env)
        return parse_declared(answer)

    def _pip(
        self,
        arguments: list[str],
        title: str,
        deadline: float = _INSTALL,
        scratch: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        # Without a pyproject.toml older pips call "setup.py develop". There setuptools from 80
        # on starts another pip that asks the indexes. pips that know only PEP 517 ignore the
        # variable and have no such option.
        env = {"PIP_USE_PEP517": "1", **(variables or {})}
        if scratch is not None:
            # pip unpacks and downloads below TMPDIR; beside the target it copies nothing twice,
            # and the next setup clears what a killed pip left.
            env["TMPDIR"] = str(scratch)
            # One date in all archives: most sources then build equal wheels.
            env["SOURCE_DATE_EPOCH"] = _EPOCH
        command = [self.python, "-m", "pip", *arguments]
        if self.target and arguments[0] == "download":
            command = self.target.run_pip(self.python, arguments)
        self.runner.run(command, title=title, deadline=deadline, env=env)


def _write_lines(scratch: Path, lines: Iterable[str]) -> Path:
    path = scratch / "requirements.txt"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def _no_index(lacking: Mapping[str, Sequence[str]], error: CommandError) -> CommandError:
    text = "; ".join(
        f"{pin} is on no index of your pip, and {' or '.join(urls)}, which documents name for it, "
        "did not give it either"
        for pin, urls in lacking.items()
    )
    remedy = "name an index that has it with PIP_EXTRA_INDEX_URL, or a folder with PIP_FIND_LINKS"
    return CommandError("pip download", f"{text}; {remedy} / {error.output}")


def wheel_path(prefix: Prefix, wheel: Wheel) -> Path:
    return prefix.wheels / wheel.sha256 / wheel.file


def find_kept(prefix: Prefix, wheel: Wheel) -> Wheel:
    """With the name of its file, which a known-good lock lacks, if the prefix has it."""
    files = () if wheel.file else (prefix.wheels / wheel.sha256).glob("*.whl")
    return next((msgspec.structs.replace(wheel, file=file.name) for file in files), wheel)


def keep(prefix: Prefix, files: Iterable[Download]) -> tuple[Wheel, ...]:
    """Move wheel files into the prefix; describes them, by name. Raises OSError."""
    wheels = []
    for file, source in files:
        wheel = describe_wheel(file, source)
        path = wheel_path(prefix, wheel)
        path.parent.mkdir(parents=True, exist_ok=True)
        _move(file, path)
        wheels.append(wheel)
    return tuple(sorted(wheels, key=lambda wheel: wheel.name))


def _move(file: Path, path: Path) -> None:
    """``wheels`` may lie on another disk."""
    try:
        file.replace(path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Copy under another name: a file under its own counts as whole.
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.copyfile(file, scratch)
        scratch.replace(path)
        file.unlink()


def intact(prefix: Prefix, wheel: Wheel) -> bool:
    """Whether the prefix has the wheel unchanged."""
    try:
        return hash_file(wheel_path(prefix, wheel)) == wheel.sha256
    except OSError:
        return False


def describe_wheel(file: Path, source: LockedSource | None = None) -> Wheel:
    """Name, version and hash of a wheel file. Raises DataError for a bad name."""
    name, version = parse_name(file)
    return Wheel(name=name, version=version, file=file.name, sha256=hash_file(file), source=source)


def parse_name(file: Path) -> tuple[str, str]:
    """Normalised name and version of a wheel file. Raises DataError."""
    try:
        name, version, _, _ = parse_wheel_filename(file.name)
    except InvalidWheelFilename as error:
        raise DataError(f"{file}: {error}") from error
    return str(name), str(version)


def distribution(file: Path) -> str:
    return parse_name(file)[0] if file.suffix == ".whl" else file.name.rpartition("-")[0]


def hash_file(file: Path) -> str:
    """SHA-256 of a file. Raises OSError."""
    digest = hashlib.sha256()
    with os.fdopen(open_regular(str(file)), "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def requirements_of(folder: Path, unasked: frozenset[str], *, built: bool) -> Iterator[str]:
    """A checkout's needs: its requirements file, and if ``built`` those of the build.

    Its file must not ask for ``unasked`` distributions. An editable install without build
    isolation uses no index, so PEP 518 build requirements must be in the environment.
    """
    for name in ("requirements-npu.txt", "requirements.txt"):
        if (folder / name).is_file():
            lines = (folder / name).read_text("utf-8", "replace").splitlines()
            # pip itself reads an unchanged file with relative paths and options.
            if any(requires(line, unasked) for line in lines):
                yield from (line for line in lines if not requires(line, unasked))
            else:
                yield f"-r {shlex.quote(str(folder / name))}"
            break
    if not built:
        return
    project = folder / "pyproject.toml"
    text = project.read_text("utf-8", "replace") if project.is_file() else ""
    listed = _BUILD_REQUIRES.search(text)
    yield from ast.literal_eval(listed[1]) if listed else ("setuptools>=64", "wheel")
