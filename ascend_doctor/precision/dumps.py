"""Reads the dumps of runs (docs/compare.md)."""

import os
import re
from typing import Literal, TypeVar

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes, reason
from ascend_doctor.machine.parsing import JSON_BYTES
from ascend_doctor.machine.syntax import describe_json
from ascend_doctor.precision.records import Dump, RankRecords, TensorRecord

_T = TypeVar("_T")
# A second number is for another process with the same rank, as of a job in a job.
_FILE = re.compile(r"rank-(\d{1,6})(?:-(\d{1,6}))?\.jsonl")


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a rank's file."""

    format: Literal["ascend-doctor-dump"]
    schema: int
    rank: int
    world_size: int
    device: str
    simulated: bool
    torch: str


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a rank's file."""

    end: Literal[True]
    records: int
    steps: int


_HEAD = msgspec.json.Decoder(_Head)
_RECORD = msgspec.json.Decoder(TensorRecord)
_END = msgspec.json.Decoder(_End)


def read_dump(path: str) -> Dump:
    """A folder with a file or a folder a rank.

    Raises DataError for an invalid dump, a damaged one and one that was cut off.
    """
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise DataError(f"{path}: {reason(error)}") from error
    files = [match for match in map(_FILE.fullmatch, names) if match]
    if not files:
        raise DataError(
            f"{path}: no dump: it has no rank-0.jsonl;"
            f" `ascend-doctor compare --record {path} -- COMMAND` writes one"
        )
    ranks = {
        label(int(match[1]), int(match[2] or 1)): _read_rank(os.path.join(path, match[0]))
        for match in sorted(files, key=lambda match: (int(match[1]), int(match[2] or 1)))
    }
    return Dump(path=path, ranks=ranks)


def label(rank: int, process: int = 1) -> str:
    return f"rank {rank}" if process == 1 else f"rank {rank}, process {process}"


def _read_rank(path: str) -> RankRecords:
    lines = read_bytes(path, JSON_BYTES).split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise DataError(f"{path}: empty; record the run again")
    head = _decode(_HEAD, lines[0], path, 1)
    if head.schema != 1:
        raise DataError(f"{path}:1: schema {head.schema}; this ascend-doctor reads schema 1")
    if not lines[-1].startswith(b'{"end":'):
        message = "cut off: its last line does not close it; record the run again"
        raise DataError(f"{path}:{len(lines)}: {message}")
    end = _decode(_END, lines[-1], path, len(lines))
    records = tuple(
        _decode(_RECORD, line, path, number) for number, line in enumerate(lines[1:-1], 2)
    )
    if len(records) != end.records:
        message = f"{len(records)} records where {end.records} were written; record the run again"
        raise DataError(f"{path}: {message}")
    return RankRecords(
        rank=head.rank, device=head.device, simulated=head.simulated, records=records
    )


def _decode(decoder: msgspec.json.Decoder[_T], line: bytes, path: str, number: int) -> _T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}:{number}: {describe_json(error, line, line=number)}") from error
