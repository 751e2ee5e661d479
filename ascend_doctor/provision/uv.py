"""uv in place of pip where it is at hand: the same indexes, the same files, in seconds."""

import ast
import datetime as dt
import os
import re
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ascend_doctor.machine.files import read_bytes, write_whole
from ascend_doctor.machine.search_path import locate
from ascend_doctor.provision.installed import record_digest
from ascend_doctor.provision.running import Runner

# Options of uv for pip's settings, by their names in pip's configuration files.
_OPTIONS = {
    "constraint": "--constraints",
    "trusted-host": "--allow-insecure-host",
    "no-binary": "--no-binary",
    "only-binary": "--only-binary",
}
_FLAGS = {"no-index": "--no-index", "pre": "--prerelease=allow", "no-cache-dir": "--no-cache"}
# Variables, also for URLs: other users see a command line, and URLs may have passwords.
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX",),
    "extra-index-url": ("UV_INDEX",),
    "find-links": ("UV_FIND_LINKS",),
    "cert": ("SSL_CERT_FILE",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY"),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "retries": ("UV_HTTP_RETRIES",),
}
_IDLE = {
    *("config-file", "disable-pip-version-check", "no-input", "user", "progress-bar", "quiet"),
    *("cache-dir", "log", "no-color", "verbose", "root-user-action", "break-system-packages"),
    *("use-pep517", "no-warn-script-location", "compile", "no-compile"),
}
_INDEXES = ("index-url", "extra-index-url")
# pip has blanks between the parts of a list; uv has them for indexes alone.
_BETWEEN = {"find-links": ","}
_SETTING = re.compile(r"(?m)^(?::env:|global|download)\.([\w-]+)=(.+)$")
_ORIGIN = "direct_url.json"
_RECORD_BYTES = 64 << 20


class PipSettings(msgspec.Struct, frozen=True):
    """pip's settings by name, without their section. A later section wins."""

    values: Mapping[str, str]

    @classmethod
    def parse(cls, listed: str) -> "PipSettings":
        """``listed`` is what ``pip config list`` prints."""
        sections = ("global.", "download.", ":env:.")
        rows = [match for match in _SETTING.finditer(listed) if match[1] != "config-file"]
        rows.sort(key=lambda match: next(n for n, name in enumerate(sections) if name in match[0]))
        return cls({match[1]: str(ast.literal_eval(match[2])) for match in rows})

    @property
    def folder_index(self) -> str:
        """An index that is a folder, which has no days of its files; "" without one."""
        if self._is_on("no-index"):
            return ""
        urls = (url for name in _INDEXES for url in self.values.get(name, "").split())
        return next((url for url in urls if not url.startswith(("http://", "https://"))), "")

    @property
    def unknown_to_uv(self) -> str:
        """The first setting that uv has no word for, or ""."""
        known = {*_OPTIONS, *_FLAGS, *_VARIABLES, *_IDLE}
        return next((name for name in self.values if name not in known), "")

    def uv_options(self) -> list[str]:
        values = self.values
        options = [
            part
            for name, option in _OPTIONS.items()
            for value in values.get(name, "").replace(",", " ").split()
            for part in (option, value)
        ]
        return [*options, *(flag for name, flag in _FLAGS.items() if self._is_on(name))]

    def uv_variables(self) -> dict[str, str]:
        return {
            variable: _BETWEEN.get(name, " ").join(self.values[name].split())
            for name, variables in _VARIABLES.items()
            if name in self.values
            for variable in variables
        }

    def _is_on(self, name: str) -> bool:
        return self.values.get(name, "0").lower() in {"1", "true", "yes", "on", "y", "t"}


class Uv(msgspec.Struct, frozen=True, kw_only=True):
    program: str
    python: str
    runner: Runner

    def compile(
        self, scratch: Path, requirements: Path, bounds: Path, settings: PipSettings, day: str
    ) -> list[str]:
        """Exact versions, for pip, of all that a requirements file needs. Raises CommandError.

        Files of indexes younger than ``day`` (ISO 8601; "" for none) do not count.
        """
        pins = scratch / "pins.txt"
        options = ["-o", str(pins), "-c", str(bounds), "--no-header", "--no-annotate"]
        # pip's way: the newest version of all indexes.
        options += ["--index-strategy", "unsafe-best-match", *settings.uv_options()]
        if day:
            options += ["--exclude-newer", f"{day}T00:00:00Z"]
        self._run(
            ["compile", *options, str(requirements)],
            deadline=1800.0,
            env={**settings.uv_variables(), "TMPDIR": str(scratch)},
        )
        return read_bytes(pins, _RECORD_BYTES).decode("utf-8").splitlines()

    def install(self, files: Mapping[Path, str], cache: Path, *, over: bool) -> None:
        """Install wheels, whose SHA-256 is the value; pip's record of it is written. CommandError.

        ``cache`` lies on the environment's disk, so that nothing is copied twice. It is removed:
        two environments that share files would change together.
        """
        # As pip does: a job may not be able to write beside the modules.
        again = ["--reinstall"] if over else ["--compile-bytecode"]
        options = ["--no-index", "--no-deps", "--cache-dir", str(cache), *again]
        try:
            paths = [str(file) for file in files]
            self._run(["install", *options, *paths], deadline=3600.0, env={})
        finally:
            shutil.rmtree(cache, ignore_errors=True)
        for file, digest in files.items():
            self._record(file, digest)

    def _record(self, file: Path, digest: str) -> None:
        # uv leaves the hash out of direct_url.json, by which a changed wheel is noticed.
        name, version = file.name.split("-")[:2]
        content = msgspec.json.encode(
            {"url": file.as_uri(), "archive_info": {"hashes": {"sha256": digest}}}
        )
        library = Path(self.python).parents[1] / "lib"
        for info in library.glob(f"python3*/site-packages/{name}-{version}.dist-info"):
            write_whole(str(info / _ORIGIN), content)
            path, record = f"{info.name}/{_ORIGIN}", info / "RECORD"
            lines = read_bytes(record, _RECORD_BYTES).decode("utf-8").splitlines()
            others = [line for line in lines if not line.startswith(f"{path},")]
            row = f"{path},sha256={record_digest(content)},{len(content)}"
            write_whole(str(record), "".join(f"{line}\n" for line in (*others, row)))

    def _run(self, arguments: Sequence[str], deadline: float, env: Mapping[str, str]) -> None:
        options = ["--no-config", "--color", "never", "--no-progress", "--python", self.python]
        command = [self.program, "pip", arguments[0], *options, *arguments[1:]]
        env = {"UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "hardlink", **env}
        self.runner.run(command, title=f"uv pip {arguments[0]}", deadline=deadline, env=env)


def find_uv(env: Mapping[str, str]) -> str | None:
    """The path of uv beside this interpreter, else on PATH; None without one."""
    beside = os.path.join(sysconfig.get_path("scripts"), "uv")
    return beside if os.access(beside, os.X_OK) else locate("uv", env)


def day_after(as_of: str) -> str:
    """The first day, ISO 8601, whose files do not count; "" for none."""
    return (dt.date.fromisoformat(as_of) + dt.timedelta(days=1)).isoformat() if as_of else ""
