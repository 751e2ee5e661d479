"""What an environment has, by the folders that pip leaves: no interpreter is started."""

import base64
import csv
import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec

from ascend_doctor.errors import Unknown
from ascend_doctor.machine.live import Machine, ProgramMissing, matches, read_or_none
from ascend_doctor.matrix.versions import VersionError, normalised, parse

_FIND = 60.0
_INFO = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[^-/]+)\.dist-info$")


class _Archive(msgspec.Struct):
    hashes: dict[str, str] = {}
    hash: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+=.*$")] = "none="


class _Origin(msgspec.Struct):
    """``direct_url.json`` as far as it is read (PEP 610)."""

    archive_info: _Archive | None = None


class Installed(msgspec.Struct, frozen=True):
    """``sha256`` of the installed file; None if the environment does not record it."""

    version: str
    sha256: str | None

    def is_of(self, version: str, sha256: str | None) -> bool:
        """Whether it has this version, and this file if recorded; None is any file."""
        same = sha256 is None or self.sha256 in (None, sha256)
        return same and _number(self.version) == _number(version)


def _number(text: str) -> object:
    try:
        return parse("pep440", text)
    except VersionError:
        return text


def parse_origin(text: str) -> str | None:
    """The SHA-256 in a ``direct_url.json``, or None."""
    try:
        archive = msgspec.json.decode(text, type=_Origin).archive_info
    except msgspec.MsgspecError:
        return None
    if archive is None:
        return None
    kind, _, digest = archive.hash.partition("=")
    return archive.hashes.get("sha256") or (digest if kind == "sha256" else None)


def read_installed(machine: Machine, environment: str) -> dict[str, Installed]:
    """Distributions of a virtual environment by normalised name, if present."""
    distributions: dict[str, Installed] = {}
    for library in matches(machine, f"{environment}/lib", "python3*"):
        for folder in matches(machine, f"{library}/site-packages", "*.dist-info"):
            info = _INFO.search(folder)
            if info is not None:
                origin = read_or_none(machine, f"{folder}/direct_url.json")
                digest = parse_origin(origin) if origin else None
                distributions[normalised(info["name"])] = Installed(info["version"], digest)
    return distributions


def list_edited(machine: Machine, environment: str, mark: str, names: Collection[str]) -> list[str]:
    """Python files of these distributions that were changed after ``mark`` was written.

    They are younger than that file and differ from RECORD. Raises Unknown.
    """
    argv = ["find", f"{environment}/lib", "-name", "*.py", "-newer", mark, "-print"]
    try:
        done = machine.run(argv, deadline=_FIND)
    except ProgramMissing as missing:
        raise Unknown(f"find is missing: {missing}") from None
    if done.exit_code != 0 or done.truncated:
        raise Unknown("find did not list the files that are younger than the stack")
    younger = set(done.stdout.splitlines())
    edited = []
    for library in matches(machine, f"{environment}/lib", "python3*") if younger else ():
        for folder in matches(machine, f"{library}/site-packages", "*.dist-info"):
            info = _INFO.search(folder)
            if info is None or normalised(info["name"]) not in names:
                continue
            rows = csv.reader(_read(machine, f"{folder}/RECORD").splitlines())
            files = {f"{library}/site-packages/{row[0]}": row[1] for row in rows if len(row) > 1}
            changed = (path for path in younger & files.keys() if _differs(machine, path, files))
            edited += sorted(changed)
    return edited


def _differs(machine: Machine, path: str, digests: Mapping[str, str]) -> bool:
    kind, _, digest = digests[path].partition("=")
    text = _read(machine, path)
    return kind == "sha256" and record_digest(text.encode("utf-8", "replace")) != digest


def _read(machine: Machine, path: str) -> str:
    text = read_or_none(machine, path)
    if text is None:
        raise Unknown(f"{path} could not be read")
    return text


def record_digest(data: bytes) -> str:
    """The SHA-256 as RECORD has it (PEP 427)."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
