"""A lock as requirements with hashes, for ``pip install --require-hashes -r`` and uv."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ascend_doctor.provision.lock import Lock, Wheel


def render_requirements(lock: Lock, file_of: Callable[[Wheel], Path]) -> str:
    """Every wheel by version and hash; of what was built here the hash of its source as well.

    ``file_of`` gives the file of a wheel, for those that no index has.
    """
    folders = (file_of(wheel).resolve().parent for wheel in lock.wheels if not wheel.is_listed)
    lines = [
        f"# The wheels of {lock.id}: CPython {lock.python.version} on {lock.python.arch}.",
        "# Written by ascend-doctor stack export. pip install --no-deps --require-hashes -r FILE",
        *(f"# not in it: {part.name} {part.ref} {part.commit}" for part in lock.checkouts),
        *(f"--find-links {folder.as_uri()}" for folder in folders),
    ]
    for wheel in lock.wheels:
        digests = [wheel.sha256, *([wheel.source.sha256] if wheel.source else [])]
        hashes = (f"    --hash=sha256:{digest}" for digest in digests)
        lines.append(" \\\n".join((f"{wheel.name}=={wheel.version}", *hashes)))
    return "\n".join(lines) + "\n"
