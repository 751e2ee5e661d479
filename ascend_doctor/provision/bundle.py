"""A folder that carries a stack to where there is no network.

DIR/ascend-doctor.lock
DIR/git/<component>.bundle      one commit each, without its history
DIR/wheels/<file>.whl
DIR/SHA256SUMS                  as sha256sum writes and checks it, of all of these
"""

import os
import re
import shutil
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes, reason
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.lock import Checkout, Lock, Prefix
from ascend_doctor.provision.sources import RepositorySource
from ascend_doctor.provision.wheels import hash_file, wheel_path

SUMS = "SHA256SUMS"
# A hundred thousand lines, which no stack has.
_SUMS_BYTES = 16 << 20
# As sha256sum writes it: * means read in binary.
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\n]+)")


def write(folder: Path, prefix: Prefix, lock: Lock, git: Git) -> None:
    """Write the bundle of a built stack; the sums last. Raises DoctorError, OSError."""
    (folder / "git").mkdir(parents=True, exist_ok=True)
    (folder / "wheels").mkdir(exist_ok=True)
    # A half written bundle must not look whole.
    (folder / SUMS).unlink(missing_ok=True)
    files = []
    for checkout in lock.checkouts:
        file = folder / "git" / f"{checkout.name}.bundle"
        git.bundle(prefix.objects / f"{checkout.name}.git", checkout.commit, file.absolute())
        files.append(file)
    for wheel in lock.wheels:
        file = folder / "wheels" / wheel.file
        shutil.copyfile(wheel_path(prefix, wheel), file)
        files.append(file)
    locks.write(folder / locks.FILE, lock)
    files.append(folder / locks.FILE)
    lines = sorted(f"{hash_file(path)}  {path.relative_to(folder)}\n" for path in files)
    scratch = folder / f".{SUMS}"
    scratch.write_text("".join(lines), "utf-8")
    scratch.replace(folder / SUMS)


def read(folder: Path) -> Lock:
    """The lock of a bundle, after each file was compared with its sum. Raises DataError."""
    sums = folder / SUMS
    if not sums.is_file():
        raise DataError(f"{sums}: there is no such file; setup --bundle writes it last")
    data = read_bytes(sums, _SUMS_BYTES)
    members: set[str] = set()
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or ".." in Path(match[2]).parts or os.path.isabs(match[2]):
            raise DataError(f"{sums}: {line!r} is no line of sha256sum")
        _compare(folder / match[2], match[1])
        members.add(match[2])
    if locks.FILE not in members:
        raise DataError(f"{sums}: has no line for {locks.FILE}; write the bundle again")
    lock = locks.read(folder / locks.FILE)
    bundles = {f"git/{checkout.name}.bundle" for checkout in lock.checkouts}
    if missing := sorted((bundles | {f"wheels/{wheel.file}" for wheel in lock.wheels}) - members):
        raise DataError(f"{sums}: has no line for {missing[0]}, which the lock names")
    return lock


def _compare(file: Path, digest: str) -> None:
    try:
        actual = hash_file(file)
    except OSError as error:
        raise DataError(f"{file}: {reason(error)}; copy the bundle again") from error
    if actual != digest:
        raise DataError(f"{file} is damaged: its SHA-256 is {actual}, not {digest}")


def source(folder: Path, checkout: Checkout) -> RepositorySource:
    return RepositorySource(url=str((folder / "git" / f"{checkout.name}.bundle").absolute()))
