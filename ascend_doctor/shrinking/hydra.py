"""Overrides of verl's Hydra configuration made small.

Source: volcengine/verl@b178a3cd:verl/trainer/config.
"""

from collections.abc import Sequence
from pathlib import Path

from ascend_doctor.shrinking.sizes import PARALLEL, read_sizes
from ascend_doctor.shrinking.words import Option

_SMALL = read_sizes(Path(__file__).with_suffix(".txt"))

_BATCH = "data.train_batch_size"


def is_hydra(options: Sequence[Option]) -> bool:
    return any(word.startswith(("actor_rollout_ref.", "trainer.")) for word in _words(options))


def parallel_sizes(options: Sequence[Option]) -> dict[str, int]:
    """The largest of each of PARALLEL in any part of the configuration."""
    sizes: dict[str, int] = {}
    for word in _words(options):
        key, _, value = word.partition("=")
        name = key.rpartition(".")[2].replace("_", "-")
        if name in PARALLEL and value.isdigit():
            sizes[name] = max(sizes.get(name, 1), int(value))
    return sizes


def count_ranks(options: Sequence[Option]) -> int | None:
    values = dict(word.partition("=")[::2] for word in _words(options))
    nodes, each = values.get("trainer.nnodes", "1"), values.get("trainer.n_gpus_per_node", "")
    return int(nodes) * int(each) if nodes.isdigit() and each.isdigit() else None


def shrink_overrides(words: Sequence[str], ranks: int) -> list[str]:
    """Overrides with small sizes, on one node of so many ranks.

    verl's default batch exceeds all made-up rows, and would be dropped: a missing one is added.
    """
    small = [_shrink(word, ranks) for word in words]
    keys = {word.partition("=")[0].lstrip("+") for word in words}
    return small if _BATCH in keys else [*small, f"{_BATCH}={_SMALL['train_batch_size']}"]


def _shrink(word: str, ranks: int) -> str:
    key, equals, value = word.partition("=")
    name = key.rpartition(".")[2]
    if name in {"n_gpus_per_node", "n_npus_per_node"}:
        return f"{key}={ranks}"
    limit = 2 if name.replace("_", "-") in PARALLEL else _SMALL.get(name)
    if not equals or limit is None or not value.isdigit() or int(value) <= limit:
        return word
    return f"{key}={limit}"


def _words(options: Sequence[Option]) -> list[str]:
    return [word for option in options for word in option.words()]
