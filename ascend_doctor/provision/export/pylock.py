"""A lock as pylock.toml (PEP 751), with the wheel files that a prefix or a bundle keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ascend_doctor.provision.lock import Lock, Wheel


def render_pylock(lock: Lock, file_of: Callable[[Wheel], Path], folder: Path) -> str:
    """``file_of`` gives the file of a wheel; paths are relative to ``folder``, the file's own.

    The checkouts are in the tool's table: they are used in place, and no installer can do that.
    """
    return "\n".join(_lines(lock, file_of, folder)) + "\n"


def _lines(lock: Lock, file_of: Callable[[Wheel], Path], folder: Path) -> Iterator[str]:
    python = lock.python
    line = ".".join(python.version.split(".")[:2])
    marker = f"sys_platform == 'linux' and platform_machine == '{python.arch}'"
    yield 'lock-version = "1.0"'
    yield f"environments = [{json.dumps(marker)}]"
    yield f'requires-python = "=={line}.*"'
    yield 'created-by = "ascend-doctor"'
    for wheel in lock.wheels:
        path = Path(os.path.relpath(file_of(wheel).resolve(), folder)).as_posix()
        yield ""
        yield "[[packages]]"
        yield f"name = {json.dumps(wheel.name)}"
        yield f"version = {json.dumps(wheel.version)}"
        yield "[[packages.wheels]]"
        yield f"name = {json.dumps(wheel.file)}"
        yield f"path = {json.dumps(path)}"
        yield f"hashes = {{sha256 = {json.dumps(wheel.sha256)}}}"
    yield ""
    yield "[tool.ascend-doctor]"
    yield f"id = {json.dumps(lock.id)}"
    yield f"tool-version = {json.dumps(lock.tool_version)}"
    for checkout in lock.checkouts:
        yield ""
        yield "[[tool.ascend-doctor.checkouts]]"
        yield f"name = {json.dumps(checkout.name)}"
        yield f"url = {json.dumps(checkout.url)}"
        yield f"ref = {json.dumps(checkout.ref)}"
        yield f"commit = {json.dumps(checkout.commit)}"
        yield f"tree = {json.dumps(checkout.tree)}"
