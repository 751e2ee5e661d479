"""What an environment has, by the folders that pip leaves: no interpreter is started."""

import re
from dataclasses import dataclass
from typing import Annotated

import msgspec

from ascend_doctor.machine.live import Machine, matches, read_or_none
from ascend_doctor.matrix.versions import VersionError, normalised, parse

_INFO = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[^-/]+)\.dist-info$")


class _Archive(msgspec.Struct):
    hashes: dict[str, str] = {}
    hash: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+=.*$")] = "none="


class _Origin(msgspec.Struct):
    """``direct_url.json`` as far as it is read (PEP 610)."""

    archive_info: _Archive | None = None


@dataclass(frozen=True)
class Installed:
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
