"""The logs that were named: files, folders, compressed ones, standard input."""

import codecs
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO, Any

from ascend_doctor.diagnosis import archives
from ascend_doctor.diagnosis.origins import NODE_RANK, Origin
from ascend_doctor.diagnosis.packed import BLOCK, BROKEN, stream_of, unpack
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import (
    check_folder,
    is_there,
    open_descriptor,
    reason,
    walk_folders,
)
from ascend_doctor.machine.report_archive import is_of_report, is_part_of_report
from ascend_doctor.patterns import compile_beside

_SAMPLE = 4096
_NULS = 20  # one zero byte in as many is no text
_LATIN = 20  # more than one Latin letter in as many bytes has every log
_FEW = 4
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

_IS = compile_beside(__file__)
ANSI = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b\n\r]{0,256}(?:\x07|\x1b\\)?|[@-Z\\-_])"
)


@dataclass(frozen=True, kw_only=True)
class Log:
    """One log to read. ``path`` of None is standard input; ``name`` is shown.

    ``opens`` reads a file of an archive. ``listed``: from a folder, which may also have core files.
    """

    name: str
    path: str | None
    origin: Origin = field(default_factory=Origin)
    opens: Callable[[], Any] | None = None
    listed: bool = False


@dataclass(frozen=True, kw_only=True)
class Skipped:
    name: str
    reason: str


def find(names: tuple[str, ...], without: Collection[str] = ()) -> tuple[list[Log], list[Skipped]]:
    """The logs of the named files and folders. Raises DataError for a name that is none.

    Files of ``without`` are known to be other files; with any, there may be no log at all.
    """
    listing = _Listing()
    for name in names:
        if name == "-":
            listing.logs.append(Log(name="standard input", path=None))
        elif os.path.isdir(name):
            check_folder(name)
            for path in files_of(name):
                if path not in without and os.path.isfile(path):
                    listing.add(path)
        elif not is_there(name):
            raise _explain_absent(name)
        elif archives.ENDING.search(name):
            listing.archive(name)
        elif name not in without:
            listing.logs.append(Log(name=name, path=name, origin=origin(name)))
    if not listing.logs and not without:
        raise listing.none(names)
    return _name_trees(listing.logs), listing.skipped


def _name_trees(logs: list[Log]) -> list[Log]:
    nodes = _nodes_of(log.name for log in logs if not log.origin.node and log.origin.rank is None)
    return [
        replace(log, origin=replace(log.origin, node=nodes[log.name], launcher=nodes[log.name]))
        if nodes.get(log.name)
        else log
        for log in logs
    ]


@dataclass
class _Listing:
    logs: list[Log] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    _archives: archives.Archives = field(default_factory=archives.Archives)

    def add(self, path: str) -> None:
        if archives.ENDING.search(path):
            self.archive(path)
        elif is_log(os.path.basename(path)):
            self.logs.append(Log(name=path, path=path, origin=origin(path), listed=True))
        else:
            self.skipped.append(Skipped(name=path, reason="not a log by its name"))

    def archive(self, path: str) -> None:
        members = [*self._archives.members(_open_file(path, path), path)]
        if not any(is_of_report(member.name) for member in members):  # which are in order
            members.sort(key=lambda member: _natural(member.name))
        for member in members:
            if is_part_of_report(member.name):
                continue
            if member.opens is None:
                self.skipped.append(Skipped(name=member.name, reason=member.refused))
            elif is_log(os.path.basename(member.name)):
                log = Log(
                    name=member.name, path=path, origin=origin(member.name), opens=member.opens
                )
                self.logs.append(replace(log, listed=True))
            else:
                self.skipped.append(Skipped(name=member.name, reason="not a log by its name"))

    def none(self, names: tuple[str, ...]) -> DataError:
        if not names:
            return DataError("no log was named")
        refused = next((member for member in self.skipped if member.name in names), None)
        if refused:
            return DataError(f"{names[0]}: {refused.reason}")
        return DataError(
            f"{names[0]}: no logs in it; "
            "`ascend-doctor diagnose ~/ascend/log` reads what CANN wrote"
        )


def _explain_absent(name: str) -> DataError:
    if _IS["line"].search(name):
        return DataError(f"{name}: no such file; `ascend-doctor explain` takes such a line")
    return DataError(f"{name}: no such file or folder")


def _open_file(path: str, name: str) -> Any:
    try:
        return os.fdopen(open_descriptor(path), "rb")
    except (OSError, ValueError) as error:
        raise DataError(f"{name}: {reason(error)}") from error


def files_of(folder: str) -> Iterator[str]:
    """Files below a folder, in the order in which they are read."""
    for directory, names in walk_folders(folder, key=_natural):
        yield from (os.path.join(directory, name) for name in names)


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def is_log(name: str) -> bool:
    return _IS["log"].search(_IS["packed"].sub("", name)) is not None


def origin(path: str) -> Origin:
    named = _IS["pod"].search(path) or _IS["nodename"].search(path) or _IS["parsed"].search(path)
    node = archives.ENDING.sub("", next(filter(None, named.groups()))) if named else ""
    device, process = _IS["ofdevice"].search(path), _IS["process"].search(path)
    own = Origin(
        launcher=node or _IS["endings"].sub("", path),
        node=node,
        device=int(device[1]) if device else None,
        process=f"pid {process[1] or process[2]}" if process else "",
    )
    if match := _IS["torchrun"].search(path):
        return replace(own, local=int(match["local"]), launcher=node or match["run"] or "")
    if match := _IS["rankname"].search(path):
        number, of = int(match["number"]), (match["of"] or "").lower()
        if of == "node":
            return replace(own, launcher=f"{NODE_RANK}{number}")
        if of == "local":
            return replace(own, local=number, launcher=node or os.path.dirname(path))
        return replace(own, rank=number)
    match = _IS["workername"].search(path)
    return replace(own, rank=int(match[1])) if match else own


def blocks(log: Log, skipped: list[Skipped]) -> Iterator[bytes]:
    """The log in blocks of whole lines of about BLOCK bytes; a longer line is cut.

    ``skipped`` gets what cannot be read to its end. Raises DataError if nothing can be read.
    """
    if log.opens is not None:
        try:
            raw = log.opens()
        except archives.REFUSED as error:
            skipped.append(Skipped(name=log.name, reason=f"not read: {error}"))
            return
    else:
        raw = sys.stdin.buffer if log.path is None else _open_file(log.path, log.name)
    try:
        try:
            plain = _plain(raw)
        except BROKEN as error:
            skipped.append(Skipped(name=log.name, reason=f"not read: {error}"))
            return
        first = True
        for block in _blocks(plain, log.name, skipped):
            if first and log.listed and _binary(block):
                skipped.append(Skipped(name=log.name, reason="not a text"))
                return
            first = False
            yield block
    finally:
        if log.path is not None:
            raw.close()


def read_around(log: Log, number: int, reach: int) -> list[tuple[int, str]]:
    """The lines of a file as far as ``reach`` from one, with their numbers; none of a pipe."""
    rows: list[tuple[int, str]] = []
    first = 1
    for block in blocks(log, []) if log.path else ():
        lines = ANSI.sub(b"", block).split(b"\n")
        start, stop = (max(number + side - first, 0) for side in (-reach, reach + 1))
        rows += [
            (first + index, line[:_SAMPLE].decode("utf-8", "replace").rstrip("\r"))
            for index, line in enumerate(lines[start:stop], start)
            if line or index < len(lines) - 1
        ]
        first += len(lines) - 1
        if first > number + reach:
            break
    return rows


def _blocks(stream: Any, name: str, skipped: list[Skipped]) -> Iterator[bytes]:
    """Blocks of a stream; errors of a cut packed file, and interrupts, come after the last."""
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
        except BROKEN as error:
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
    buffered = unpack(raw)
    try:
        encoding = _wide(buffered.peek(_SAMPLE)[:_SAMPLE])
    except BROKEN:
        return buffered
    return stream_of(_recode(buffered, encoding)) if encoding else buffered


def _wide(head: bytes) -> str:
    for mark, encoding in _WIDE.items():
        if head.startswith(mark):
            return encoding
    high, low = head[0::2].count(0), head[1::2].count(0)
    # A Chinese letter such as U+4E00 has one as well.
    if max(high, low) * _LATIN <= len(head) or min(high, low) * _FEW > max(high, low):
        return ""
    encoding = "utf-16-le" if low > high else "utf-16-be"
    try:
        codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return ""
    return encoding


def _recode(stream: Any, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    piece = b"more"
    while piece:
        piece = stream.read1(BLOCK)
        yield decoder.decode(piece, final=not piece).encode("utf-8", "replace")


def _nodes_of(names: Iterable[str]) -> dict[str, str]:
    """What distinguishes each file's tree, and files beside it; empty with one tree."""
    names = list(names)
    trees = {name: match["tree"].split("/") for name in names if (match := _IS["tree"].match(name))}
    different = sorted({tuple(parts) for parts in trees.values()})
    if len(different) <= 1:
        return {}
    first, last = different[0], different[-1]
    shared = next(
        (at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right),
        min(len(first), len(last)),
    )
    nodes = {parts: parts[shared] if shared < len(parts) else "" for parts in different}
    folders = {parts[: shared + 1]: node for parts, node in nodes.items() if node}
    beside = {name: folders.get(tuple(name.split("/")[:-1][: shared + 1]), "") for name in names}
    return beside | {name: nodes[tuple(parts)] for name, parts in trees.items()}
