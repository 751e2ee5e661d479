"""The packages beside a traceback's frames, by what pip left there: no interpreter is started."""

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Distribution, Python
from ascend_doctor.judging.requirements import Requirement, requirements
from ascend_doctor.judging.version_compare import is_in_range
from ascend_doctor.machine.live import Machine, exists, matches, read_or_none
from ascend_doctor.matrix.versions import normalised

_INFO = re.compile(r"(?P<name>[A-Za-z0-9][\w.]*)-(?P<version>[\w.+!]+)\.dist-info$")
_VERSION = re.compile(r"(?m)^Version: *([\w.+!-]+)")
_REQUIRES = re.compile(r"(?m)^Requires-Dist: *(.+)$")
_CODE = re.compile(r"(?!\.\./|.*/tests?/).*\.(?:py|so[.\d]*)|[^/]*\.dist-info/METADATA")
# PEP 610.
_EDITABLE = re.compile(r'"url": *"file://(?P<folder>/[\w./+-]+)"')
# torch's has some two megabytes.
_RECORD_BYTES = 1 << 24
# How a file gets a name of its own; {} is the name.
_IMPORTS = (
    r"(?m)^[ \t]*(?:from +(?P<module>[\w.]+) +import +(?:\([^)]{{0,2000}}?|.*)\b{0}\b"
    r"|import +(?:(?P<whole>[\w.]+) +as +{0}|(?:.*, *)?(?P<plain>{0}))\b)"
)


@dataclass
class Site:
    """A folder site-packages of this machine."""

    machine: Machine
    folder: str

    @cached_property
    def python(self) -> Python:
        match = re.search(r"/python(3\.\d+)/", self.folder)
        return Python(
            version=match[1] if match else "",
            implementation="cpython",
            machine=platform.machine(),
            distributions=tuple(self._read()),
        )

    def _read(self) -> Iterator[Distribution]:
        for info in matches(self.machine, self.folder, "*.dist-info"):
            if match := _INFO.search(info):
                text = read_or_none(self.machine, f"{info}/METADATA") or ""
                head = text.partition("\n\n")[0]
                version = _VERSION.search(head)
                yield Distribution(
                    name=normalised(match["name"]),
                    version=version[1] if version else match["version"],
                    location=info,
                    requires=tuple(_REQUIRES.findall(head)),
                )

    def find(self, name: str) -> Distribution | None:
        return self.python.find(normalised(name))

    def find_owner(self, module: str) -> str:
        """The distribution that lists a module."""
        shape = re.compile(rf"(?m)^{re.escape(module)}[/.]")
        return next(
            (e.name for e in self.python.distributions if shape.search(self._record(e))), ""
        )

    def find_moved(self, root: str, package: str) -> Iterator[tuple[str, str]]:
        """Editable installations with a module's name whose folder is gone."""
        for each in self.python.distributions:
            if {each.name, each.name.partition("-")[0]} & {normalised(root), normalised(package)}:
                text = read_or_none(self.machine, f"{each.location}/direct_url.json") or ""
                match = _EDITABLE.search(text) if '"editable": true' in text else None
                if match and not exists(self.machine, match["folder"]):
                    yield each.name, match["folder"]

    def find_copies(self, *files: str) -> Iterator[str]:
        """The packages outside around files that have the name of an installed one."""
        for file in files:
            for end in (match.start() for match in re.finditer("/", file[1:])):
                folder = file[: end + 1]
                paths = (folder, f"{self.folder}/{folder.rpartition('/')[2]}")
                if all(exists(self.machine, f"{path}/__init__.py") for path in paths):
                    yield folder

    def _record(self, distribution: Distribution) -> str:
        try:
            return self.machine.read(f"{distribution.location}/RECORD", limit=_RECORD_BYTES)
        except OSError:
            return ""

    def find_damage(self, distribution: Distribution, ending: str = "") -> str:
        """The first file that is missing or emptied, or a library of another size."""
        for row in self._record(distribution).splitlines():
            path, _, size = (*row.rsplit(",", 2), "", "")[:3]
            if ending not in path or not _CODE.fullmatch(path) or not size.isdecimal():
                continue
            try:
                there = self.machine.status(f"{self.folder}/{path}").size
            except OSError:
                there = -1
            if (there != int(size)) if ".so" in path else there < min(int(size), 1):
                return f"{self.folder}/{path}"
        return ""

    def find_unmet(self, distribution: Distribution) -> Iterator[tuple[Requirement, Distribution]]:
        """What it requires, and the installed one that does not meet it."""
        try:
            for asked in requirements(self.python, distribution):
                other = self.find(asked.name)
                if other and asked.specifier and not is_in_range(other.version, asked.specifier):
                    yield asked, other
        except Unknown:
            return

    def find_import(self, file: str, name: str) -> str:
        """The module from which a file imports a name; "" for one of the project."""
        match = re.search(_IMPORTS.format(re.escape(name)), read_or_none(self.machine, file) or "")
        module = (match["module"] or match["whole"] or match["plain"]) if match else ""
        return "" if module.startswith(".") else module

    def find_module(self, folder: str, name: str) -> str:
        """The file of a module in a folder of the program."""
        paths = (f"{folder}/{name}{ending}" for ending in (".py", "/__init__.py"))
        return next((path for path in paths if exists(self.machine, path)), "")
