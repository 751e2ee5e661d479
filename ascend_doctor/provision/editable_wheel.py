"""Wheels that hold no code and point to a checkout, as an editable install does (PEP 660)."""

import zipfile
from pathlib import Path

import msgspec

from ascend_doctor.provision.installed import record_digest

# Runs in the environment: setup.py up to its declarations, without a command. The answer is the
# last line, as a setup.py may print.
READ = """
import io, json, os, sys
import setuptools
from distutils.core import run_setup
os.chdir(sys.argv[1])
sys.argv = ["setup.py"]
sys.path.insert(0, os.getcwd())
told = run_setup("setup.py", stop_after="config")
text = io.StringIO()
told.metadata.write_pkg_file(text)
head, newline, rest = text.getvalue().partition("\\n")
if "\\nRequires-Dist:" not in rest:  # older ones write a file of their own
    rest = "".join("Requires-Dist: %s\\n" % one for one in told.install_requires or ()) + rest
points = told.entry_points or {}
if not isinstance(points, str):
    points = "".join(
        "[%s]\\n%s\\n" % (group, "\\n".join([rows] if isinstance(rows, str) else rows))
        for group, rows in points.items()
    )
more = told.ext_modules or told.scripts or told.data_files or told.package_dir or told.cmdclass
print()
print(json.dumps({
    "name": told.get_name(), "version": told.get_version(), "metadata": head + newline + rest,
    "entry_points": points, "more": bool(more),
}))
"""


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """``metadata`` and ``entry_points`` are as in a dist-info folder.

    ``more``: extension modules, scripts, commands or another layout, which need a build.
    """

    name: str
    version: str
    metadata: str
    entry_points: str = ""
    more: bool = False

    @property
    def stem(self) -> str:
        return f"{_stem(self.name)}-{self.version}"


def parse_declared(answer: str) -> Declared | None:
    """What ``READ`` printed; None if a build is needed or the answer is something else."""
    try:
        declared = msgspec.json.decode(answer.rstrip().rpartition("\n")[2], type=Declared)
    except msgspec.MsgspecError:
        return None
    named = declared.metadata.startswith("Metadata-Version:")
    return declared if named and not declared.more else None


def link_checkout(folder: Path, declared: Declared, target: Path) -> Path:
    """A wheel of what setup.py declares, whose code is in ``target``."""
    more = {"entry_points.txt": declared.entry_points} if declared.entry_points else {}
    path = f"__editable__.{declared.stem}.pth"
    return _write(
        folder, declared.stem, {"METADATA": declared.metadata, **more}, {path: f"{target}\n"}
    )


def reference(path: Path) -> bytes:
    """``direct_url.json`` of an editable install (PEP 610)."""
    return msgspec.json.encode({"url": path.as_uri(), "dir_info": {"editable": True}})


def stand_in(folder: Path, name: str, version: str, summary: str, target: Path | None) -> Path:
    """A wheel that declares to pip a distribution which is there.

    Without it pip would bring a second copy for packages that require the name, as mcore-bridge
    does megatron-core. ``target`` is the checkout that provides it.
    """
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    stem = f"{_stem(name)}-{version}"
    path = {f"{_stem(name)}.pth": f"{target}\n"} if target else {}
    return _write(folder, stem, {"METADATA": metadata}, path)


def _stem(name: str) -> str:
    return name.replace("-", "_")


def _write(folder: Path, stem: str, info: dict[str, str], files: dict[str, str]) -> Path:
    about = (
        "Wheel-Version: 1.0\nGenerator: ascend-doctor\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    inside = {f"{stem}.dist-info/{name}": text for name, text in (*info.items(), ("WHEEL", about))}
    files = {**files, **inside}
    record = "".join(
        f"{path},sha256={record_digest(text.encode())},{len(text.encode())}\n"
        for path, text in files.items()
    )
    files[f"{stem}.dist-info/RECORD"] = f"{record}{stem}.dist-info/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in files.items():
            # A fixed time: equal checkouts give equal files.
            archive.writestr(zipfile.ZipInfo(path), text)
    return file
