"""Where the processes of one simulated machine account for device memory (runtime/ledger.c)."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from pathlib import Path

import psutil

from ascend_doctor.machine.private import private_folder
from ascend_doctor.machine.scratch import new_folder

SUFFIX = ".ledger"
STALE_AFTER = 600.0  # seconds: a new machine's processes have long written into its ledger by then


def new_ledger() -> Path:
    """The path of a ledger that no machine has; ledgers of killed machines are removed."""
    try:
        folder = private_folder(Path(tempfile.gettempdir()) / f"ascend-simulator-{os.getuid()}")
    except OSError:  # somebody else has taken the name
        folder = new_folder()
    for path in folder.glob(f"*{SUFFIX}"):
        _sweep(path)
    return folder / f"{secrets.token_hex(8)}{SUFFIX}"


def _sweep(path: Path) -> None:
    """An entry is a process id (4 bytes, padded to 8) and a number of bytes (8)."""
    try:
        old = time.time() - path.stat().st_mtime > STALE_AFTER
        entries = memoryview(path.read_bytes()).cast("Q") if old else None
        if entries is not None and not any(map(psutil.pid_exists, filter(None, entries[::2]))):
            path.unlink()
    except OSError:
        return  # somebody else removed it
