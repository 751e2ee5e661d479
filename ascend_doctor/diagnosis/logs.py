"""The logs that were named: files, folders, compressed ones, standard input."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import zstandard

from ascend_doctor.diagnosis.origins import Origin
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import open_descriptor, reason

BLOCK = 1 << 20

_UNPACK: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda raw: zstandard.ZstdDecompressor(
        max_window_size=1 << 27
    ).stream_reader(raw, read_across_frames=True),
}
_BROKEN = (OSError, EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError)
_MAGIC = 6
_SAMPLE = 4096
_NULS = 20  # one zero byte in as many is no text
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

# Files of a folder that are logs by their names: log, txt, out, err and their rotations, CANN's
# plog-1_2.log, torchrun's stdout.log and error.json, Slurm's slurm-1.out, files without an ending.
_LOG = re.compile(
    r"(?:^(?!.*\.[A-Za-z]\w*$)|\.(?:log|txt|out|err)(?:[.-][\w-]+)*$|^std(?:out|err)|^error\.json$)"
)
_PACKED = re.compile(r"\.(?:gz|xz|bz2|zst)$")

# torchrun --log-dir: <run>/attempt_0/3/stderr.log. Its number is the rank on its node.
_TORCHRUN = re.compile(r"(?:^|/)attempt_\d+/(\d{1,6})/[^/]+$")
_RANK_NAME = re.compile(r"(?:^|[._/-])rank[._-]?(\d{1,6})(?=[._/-]|$)", re.IGNORECASE)
# msrun of MindSpore and launchers of its kind: worker_3.log.
_WORKER_NAME = re.compile(r"(?:^|/)worker_(\d{1,6})\.log(?:\.|$)")
_NODE_NAME = re.compile(r"(?:^|/)((?:node|host|worker)[._-]?[\w.-]*)/", re.IGNORECASE)
# CANN's plog-<pid>_<time>.log, Ray's worker-<id>-<job>-<pid>.err
_PROCESS = re.compile(r"(?:^|/)(?:plog-(\d+)_\d+\.log|worker-\w+-\w+-(\d+)\.(?:out|err|log))")
# The kubelet's /var/log/pods/<namespace>_<pod>_<uid>/<container>/0.log
_POD = re.compile(r"/pods/[\w.-]+_([\w.-]+)_[\w-]+/")


@dataclass(frozen=True, kw_only=True)
class Log:
    """One log to read. ``path`` of None is standard input; ``name`` is shown.

    ``listed``: found in a folder, where core files and the like lie beside logs.
    """

    name: str
    path: str | None
    origin: Origin = field(default_factory=Origin)
    listed: bool = False


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A file that was not read to its end, and why."""

    name: str
    reason: str


def find(names: tuple[str, ...]) -> tuple[list[Log], list[Skipped]]:
    """The logs of the named files and folders. Raises DataError for a name that is none."""
    logs: list[Log] = []
    skipped: list[Skipped] = []
    for name in names:
        if name == "-":
            logs.append(Log(name="standard input", path=None))
        elif os.path.isdir(name):
            found = [path for path in _files(name) if os.path.isfile(path)]
            own = [path for path in found if is_log(os.path.basename(path))]
            logs += [Log(name=path, path=path, origin=origin(path), listed=True) for path in own]
            skipped += [
                Skipped(name=path, reason="not a log by its name")
                for path in found
                if path not in set(own)
            ]
        elif os.path.exists(name):
            logs.append(Log(name=name, path=name, origin=origin(name)))
        else:
            raise DataError(f"{name}: no such file or folder")
    if not logs:
        raise DataError(f"{names[0]}: no logs in this folder" if names else "no log was named")
    return logs, skipped


def _files(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders.sort(key=_natural)
        yield from (os.path.join(place, name) for name in sorted(files, key=_natural))


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def is_log(name: str) -> bool:
    """Whether a file of a folder is a log, by its name."""
    return _LOG.search(_PACKED.sub("", name)) is not None


def origin(path: str) -> Origin:
    """What the path says of the process that wrote the file."""
    rank = _TORCHRUN.search(path) or _RANK_NAME.search(path) or _WORKER_NAME.search(path)
    node = _POD.search(path) or _NODE_NAME.search(path)
    process = _PROCESS.search(path)
    return Origin(
        rank=int(rank[1]) if rank else None,
        node=node[1] if node else "",
        process=f"pid {process[1] or process[2]}" if process else "",
    )


def blocks(log: Log, skipped: list[Skipped]) -> Iterator[bytes]:
    """The log in blocks of whole lines of about BLOCK bytes; a longer line is cut.

    What cannot be read to its end is told in ``skipped``; a file that cannot be read at all raises
    DataError.
    """
    try:
        raw = sys.stdin.buffer if log.path is None else os.fdopen(open_descriptor(log.path), "rb")
    except (OSError, ValueError) as error:
        raise DataError(f"{log.name}: {reason(error)}") from error
    try:
        first = True
        for block in _blocks(_plain(raw), log.name, skipped):
            if first and log.listed and _binary(block):
                skipped.append(Skipped(name=log.name, reason="not a text"))
                return
            first = False
            yield block
    finally:
        if log.path is not None:
            raw.close()


def _blocks(stream: Any, name: str, skipped: list[Skipped]) -> Iterator[bytes]:
    """Blocks of a buffered stream.

    The last one holds what there was also where a packed file is cut short, or where the user
    interrupts a stream that goes on; that is raised behind it.
    """
    ended = interrupted = False
    while not ended:
        parts: list[bytes] = []
        size = 0
        try:
            while size < BLOCK and not ended:
                parts.append(stream.read1(BLOCK))
                size += len(parts[-1])
                ended = not parts[-1]
            if not ended:
                parts.append(stream.readline(BLOCK))
        except _BROKEN as error:
            skipped.append(Skipped(name=name, reason=f"not read to its end: {error}"))
            ended = True
        except KeyboardInterrupt:
            ended = interrupted = True
        if any(parts):
            yield b"".join(parts)
    if interrupted:
        raise KeyboardInterrupt


def _binary(head: bytes) -> bool:
    sample = head[:_SAMPLE]
    return sample.count(0) * _NULS > len(sample)


def _plain(raw: IO[bytes]) -> Any:
    """The stream as UTF-8 or what it is, unpacked where its first bytes say that it is packed."""
    buffered: Any = raw
    for magic, unpack in _UNPACK.items():
        if buffered.peek(_MAGIC).startswith(magic):
            buffered = io.BufferedReader(unpack(buffered), BLOCK)
            break
    try:
        head = buffered.peek(len(codecs.BOM_UTF16))
    except _BROKEN:
        return buffered
    for mark, encoding in _WIDE.items():
        if head.startswith(mark):
            return io.BufferedReader(_Recoded(buffered, encoding), BLOCK)
    return buffered


class _Recoded(io.RawIOBase):
    """A stream of UTF-16 as one of UTF-8."""

    def __init__(self, stream: Any, encoding: str) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = self._stream.read1(BLOCK)
            text = self._decoder.decode(piece, final=not piece)
            self._left = text.encode("utf-8", "replace")
            if not piece:
                break
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
