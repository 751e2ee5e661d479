"""What `accelerate launch` reads of its configuration, and its own options made small.

Source: huggingface/accelerate@v1.10.1:src/accelerate/commands/launch.py, where an option that is
typed goes before what the configuration says.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.shrinking.sizes import PARALLEL, SmallLayout
from ascend_doctor.shrinking.words import LaunchWords, Option

_MOST = 2
_BATCHES = "gradient-accumulation-steps"
_SIZES = {
    "parallelism-config-tp-size": PARALLEL[0], "megatron-lm-tp-degree": PARALLEL[0],
    "megatron-lm-pp-degree": PARALLEL[1], "parallelism-config-cp-size": PARALLEL[2],
}  # fmt: skip
_DATA = ("parallelism-config-dp-replicate-size", "parallelism-config-dp-shard-size")
_READ = {
    *("num-processes", "num-machines", "machine-rank", "main-process-ip", "main-process-port"),
    *("gpu-ids", _BATCHES, *_SIZES, *_DATA),
}


def add_configuration(launch: LaunchWords) -> LaunchWords:
    """Add the configuration's places and sizes as options of the launch.

    Raises DataError if the configuration cannot be read.
    """
    typed = {option.name: option.arguments for option in launch.places}
    file = "".join(typed.get("config-file", ()))
    values = _flatten(_read(file)) if file else ()
    added = tuple(
        Option(f"--{key}", (str(value),))
        for key, value in values
        if Option(key).name in _READ - typed.keys()
    )
    return msgspec.structs.replace(launch, places=(*launch.places, *added))


def parallel_sizes(places: Sequence[Option]) -> dict[str, int]:
    numbers = ((_SIZES.get(option.name), option.number) for option in places)
    return {name: size for name, size in numbers if name and size}


def divide_replicas(places: Sequence[Option], layout: SmallLayout, npus: int) -> SmallLayout:
    """The layout with two replicas of two ranks each, if replicas are divided.

    Raises DataError if ``npus`` are too few.
    """
    numbers = {option.name: option.number or 1 for option in places}
    if not all(numbers.get(name, 1) > 1 for name in _DATA):
        return layout
    ranks = 4 * layout.tensor * layout.pipeline * layout.context
    if ranks > npus:
        raise DataError(
            f"--npus {npus}: this launch needs {ranks} to keep its kinds of parallelism"
        )
    return msgspec.structs.replace(layout, ranks=ranks)


def shrink_places(launch: LaunchWords, ranks: int) -> LaunchWords:
    """On this machine with so many ranks, each size at most 2."""
    here = launch.on_one_node(ranks)
    return msgspec.structs.replace(here, places=tuple(map(_shrink, here.places)))


def _shrink(option: Option) -> Option:
    sized = option.name in {*_SIZES, *_DATA, _BATCHES}
    large = sized and (option.number or 0) > _MOST
    return Option(option.typed, (str(_MOST),)) if large else option


def _flatten(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value)
        elif value is not None:
            yield key, value


def _read(file: str) -> dict[str, Any]:
    values = read_yaml(Path(file))
    if not isinstance(values, dict):
        raise DataError(f"{file}: not an object")
    return values
