"""The ledger of a simulated machine, which its processes map (runtime/ledger.c)."""

import os
import secrets
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from ascend_doctor.machine.private import private_folder, read_mine
from ascend_doctor.machine.scratch import new_folder

SUFFIX = ".ledger"
STALE_AFTER = 600.0  # seconds: a new machine's processes have long written into its ledger by then
# As in ledger.c: for each device entries of a process id (4 bytes, padded to 8) and its bytes (8);
# then each device's peak; then operation, ranks, calls, bytes.
_DEVICES, _ENTRIES, _TALLIES = 64, 64, 256
_ENTRY = struct.Struct("=i4xQ")
_PEAKS = struct.Struct(f"={_DEVICES}Q")
_TALLY = struct.Struct("=24sQQQ")
_PEAKS_AT = _DEVICES * _ENTRIES * _ENTRY.size
_TALLIES_AT = _PEAKS_AT + _PEAKS.size


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of an operation by groups of ``ranks``, and the bytes from one rank."""

    operation: str
    ranks: int
    calls: int
    bytes: int


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The use of simulated machines. ``peaks``: the most bytes of an NPU, taken at once."""

    peaks: tuple[int, ...] = ()
    tallies: tuple[Tally, ...] = ()


def new_ledger() -> Path:
    """The path of a new ledger; removes ledgers of killed machines."""
    try:
        folder = private_folder(Path(tempfile.gettempdir()) / f"ascend-simulator-{os.getuid()}")
    except OSError:  # somebody else has taken the name
        folder = new_folder()
    for path in folder.glob(f"*{SUFFIX}"):
        _sweep(path)
    return folder / f"{secrets.token_hex(8)}{SUFFIX}"


def hold(path: Path) -> None:
    """Make the ledger, and keep it: the last process of a machine removes it."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.seek(_PEAKS_AT - _ENTRY.size)
        file.write(_ENTRY.pack(os.getpid(), 0))


def read_account(*paths: Path) -> Account:
    """The contents of ledgers of machines that work together; missing ones count as empty."""
    peaks: list[int] = []
    tallies: dict[tuple[str, int], Tally] = {}
    for path in paths:
        data = read_mine(path) or b""
        if len(data) < _TALLIES_AT + _TALLIES * _TALLY.size:
            continue
        peaks += filter(None, _PEAKS.unpack_from(data, _PEAKS_AT))
        for tally in _tallies(data):
            key = tally.operation, tally.ranks
            before = tallies.get(key)
            tallies[key] = msgspec.structs.replace(
                tally,
                calls=tally.calls + (before.calls if before else 0),
                bytes=tally.bytes + (before.bytes if before else 0),
            )
    return Account(peaks=tuple(peaks), tallies=tuple(tallies.values()))


def _tallies(data: bytes) -> Iterator[Tally]:
    for at in range(_TALLIES):
        operation, *numbers = _TALLY.unpack_from(data, _TALLIES_AT + at * _TALLY.size)
        if not operation[0]:
            return
        yield Tally(
            operation=operation.rstrip(b"\0").decode("utf-8", "replace"),
            ranks=numbers[0],
            calls=numbers[1],
            bytes=numbers[2],
        )


def _sweep(path: Path) -> None:
    try:
        old = time.time() - path.stat().st_mtime > STALE_AFTER
        pids = [pid for pid, _ in _ENTRY.iter_unpack(path.read_bytes()[:_PEAKS_AT])] if old else []
        if old and not any(map(psutil.pid_exists, filter(None, pids))):
            path.unlink()
    except (OSError, struct.error):
        return  # somebody else removed it
