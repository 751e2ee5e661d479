"""Reads the dumps of msprobe (MindStudio-Probe): statistics and check sums of ``dump.json``.

Its layout is that of docs/en/dump/pytorch_data_dump_instruct.md in Ascend/msprobe (8ff00da): a
folder a step, in it one a rank, or ``proc`` and the process id where there are no ranks. Tensors
that task "tensor" saves beside the statistics are not read.
"""

import json
import math
import os
import re
from collections.abc import Iterator
from typing import Any

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.parsing import JSON_BYTES
from ascend_doctor.machine.syntax import describe_json
from ascend_doctor.precision.records import Dump, RankRecords, TensorKind, TensorRecord

WRITER = "msprobe"
_STEP = re.compile(r"step(\d{1,9})")
_RANK = re.compile(r"rank(\d{0,6})|proc\d+")
_MODULE = re.compile(r"(?:Module|Cell)\.(.+)\.([^.]+)\.(forward|backward)\.(\d{1,9})")
_PARAMETERS = re.compile(r"(?:Module|Cell)\.(.+)\.([^.]+)\.parameters_grad(?:\.(\d{1,9}))?")
_API = re.compile(r"(.+)\.(\d{1,9})\.(forward|backward)")
_FORWARD = {
    "input_args": TensorKind.INPUT,
    "input_kwargs": TensorKind.INPUT,
    "output": TensorKind.OUTPUT,
    "parameters": TensorKind.WEIGHT,
}
# The gradients that come into a backward pass are those of what went out of the forward one.
_BACKWARD = {"input": TensorKind.OUTPUT_GRADIENT, "output": TensorKind.INPUT_GRADIENT}
# Arguments of modules are nested a few times; a file made by hand may exhaust the stack.
_DEPTH = 20


def read(path: str, names: list[str]) -> Dump | None:
    """A dump of msprobe in a folder with these names; None where there is none.

    Raises DataError that names the file and the entry that cannot be read.
    """
    steps = {int(match[1]): match[0] for match in map(_STEP.fullmatch, names) if match}
    folders = [(step, os.path.join(path, steps[step])) for step in sorted(steps)] or [(0, path)]
    ranks: dict[str, list[TensorRecord]] = {}
    for step, folder in folders:
        for name, file in _files(folder):
            ranks.setdefault(name, []).extend(_records(file, step))
    if not ranks:
        return None
    return Dump(
        path=path,
        writer=WRITER,
        ranks={
            name: RankRecords(rank=int(name.split()[1]), records=tuple(records))
            for name, records in ranks.items()
        },
    )


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """The files of a step with the names of their ranks; a single process is rank 0."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    if "dump.json" in names:
        yield "rank 0", os.path.join(folder, "dump.json")
        return
    matches = [match for match in map(_RANK.fullmatch, names) if match]
    ranks = sorted((int(match[1]), match[0]) for match in matches if match[1])
    for number, name in ranks or [(0, match[0]) for match in matches[:1]]:
        file = os.path.join(folder, name, "dump.json")
        if os.path.exists(file):
            yield f"rank {number}", file


def _records(path: str, step: int) -> Iterator[TensorRecord]:
    written = read_bytes(path, JSON_BYTES)
    try:
        # Python's own: msprobe writes NaN and Infinity, which are no JSON.
        content = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {describe_json(error, written)}; dump again") from error
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        raise DataError(f"{path}: no dump.json of msprobe: `data` is not there")
    for entry, values in data.items():
        yield from _read_entry(path, entry, values, step)


def _read_entry(path: str, entry: str, values: Any, step: int) -> list[TensorRecord]:
    try:
        return list(_of_entry(entry, values, step))
    except (TypeError, ValueError, AttributeError, OverflowError, KeyError) as error:
        raise DataError(f"{path}: data.{entry}: cannot be read ({error})") from error


def _of_entry(entry: str, values: Any, step: int) -> Iterator[TensorRecord]:
    kinds: dict[str, TensorKind] = _FORWARD
    if match := _MODULE.fullmatch(entry):
        name, class_name, direction, call = match.groups()
    elif match := _PARAMETERS.fullmatch(entry):
        name, class_name, direction, call = match[1], match[2], "", match[3] or "0"
    elif match := _API.fullmatch(entry):
        name, call, direction = match.groups()
        class_name = ""
    else:
        return
    if direction == "backward":
        kinds = _BACKWARD
    elif not direction:
        kinds = dict.fromkeys(values, TensorKind.WEIGHT_GRADIENT)
    for part, kind in kinds.items():
        for path, tensor in _tensors(values.get(part), 0):
            slot = ".".join(path)
            full = name
            if kind in {TensorKind.WEIGHT, TensorKind.WEIGHT_GRADIENT}:
                full, slot = f"{name}.{slot if kind is TensorKind.WEIGHT else part}", ""
            yield _record(
                tensor, step=step, kind=kind, name=full, type=class_name, call=int(call), slot=slot
            )


def _tensors(value: Any, depth: int) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Tensors in a nested value, with their paths."""
    if depth > _DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        if "dtype" in value and "shape" in value:
            yield (), value
            return
        items: Iterator[tuple[Any, Any]] = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        return
    for key, item in items:
        for path, tensor in _tensors(item, depth + 1):
            yield (str(key), *path), tensor


def _record(tensor: dict[str, Any], **fields: Any) -> TensorRecord:
    numbers = {name: _number(tensor.get(name)) for name in ("Norm", "Mean", "Min", "Max")}
    finite = {
        name: number if number is not None and math.isfinite(number) else None
        for name, number in numbers.items()
    }
    odd = any(number is not None and not math.isfinite(number) for number in numbers.values())
    return TensorRecord(
        shape=tuple(int(size) for size in tensor["shape"]),
        dtype=str(tensor["dtype"]).rpartition(".")[2].lower(),
        norm=finite["Norm"],
        mean=finite["Mean"],
        least=finite["Min"],
        most=finite["Max"],
        not_finite=int(odd),
        digest=str(tensor.get("md5") or ""),
        **fields,
    )


def _number(value: Any) -> float | None:
    """A statistic; of booleans msprobe writes booleans, of empty tensors null."""
    return None if value is None else float(value)
