"""Stalls of random layouts, as the dumps of their ranks would show them: made, and labelled."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascend_doctor.diagnosis.recorder import RankTrace, parse_dump

STEPS = 4
FRAMES = [
    {"name": "all_reduce", "filename": "/env/lib/python3.11/site-packages/torch/x.py", "line": 7},
    {"name": "train", "filename": "/job/train.py", "line": 40},
]


@dataclass
class Rank:
    """A rank that runs a program of (group, operation) and what became of it."""

    program: list[tuple[str, str]]
    at: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """Groups by name, in the order in which every rank uses those that it is in."""

    groups: dict[str, tuple[int, ...]]
    titles: dict[str, str]
    world: int


def draw_layout(chance: random.Random) -> Layout:
    """Tensor, data and world groups over a grid, with the order of their use at random."""
    tensor, data = chance.choice([2, 4]), chance.choice([2, 3, 4])
    world = tensor * data
    groups = {"0": tuple(range(world))}
    titles = {"0": "default_pg"}
    for start in range(0, world, tensor):
        name = str(len(groups))
        groups[name] = tuple(range(start, start + tensor))
        titles[name] = "TENSOR_MODEL_PARALLEL_GROUP"
    for start in range(tensor):
        name = str(len(groups))
        groups[name] = tuple(range(start, world, tensor))
        titles[name] = "DATA_PARALLEL_GROUP"
    return Layout(groups=groups, titles=titles, world=world)


def draw_round(chance: random.Random) -> list[tuple[str, str]]:
    """What every rank does in a step, by the titles of groups."""
    titles = ["TENSOR_MODEL_PARALLEL_GROUP", "DATA_PARALLEL_GROUP", "default_pg"]
    extra = [chance.choice(titles) for _ in range(chance.randrange(4))]
    return [(title, chance.choice(["all_reduce", "all_gather"])) for title in titles + extra]


def programs(layout: Layout, steps: list[tuple[str, str]]) -> dict[int, list[tuple[str, str]]]:
    own = {
        rank: {layout.titles[name]: name for name, ranks in layout.groups.items() if rank in ranks}
        for rank in range(layout.world)
    }
    return {
        rank: [(own[rank][title], operation) for _ in range(STEPS) for title, operation in steps]
        for rank in range(layout.world)
    }


def run(layout: Layout, work: dict[int, list[tuple[str, str]]], ahead: int) -> dict[int, Rank]:
    """Every rank puts up to ``ahead`` calls into its queue; what all its members began ends."""
    ranks = {rank: Rank(program=program) for rank, program in work.items()}
    moved = True
    while moved:
        moved = False
        for rank in ranks.values():
            while rank.at < len(rank.program) and len(_pending(rank)) < ahead:
                _enqueue(rank, *rank.program[rank.at], layout)
                rank.at += 1
                moved = True
        for name, members in layout.groups.items():
            heads = [next(iter(_pending(ranks[member])), None) for member in members]
            keys = {
                (head["process_group"][0], head["collective_seq_id"], head["profiling_name"])
                if head
                else None
                for head in heads
            }
            if len(keys) == 1 and (key := keys.pop()) and key[0] == name:
                for head in heads:
                    assert head
                    head["state"] = "completed"
                moved = True
    return ranks


def _pending(rank: Rank) -> list[dict[str, Any]]:
    return [entry for entry in rank.entries if entry["state"] != "completed"]


def _enqueue(rank: Rank, name: str, operation: str, layout: Layout) -> None:
    rank.counts[name] = rank.counts.get(name, 0) + 1
    rank.entries.append(
        {
            "record_id": len(rank.entries),
            "pg_id": int(name),
            "process_group": (name, layout.titles[name]),
            "collective_seq_id": rank.counts[name],
            "p2p_seq_id": 0,
            "op_id": rank.counts[name],
            "profiling_name": f"hccl:{operation}",
            "time_created_ns": 1795448278810772090,
            "input_sizes": [[1, 4]],
            "input_dtypes": ["Float"],
            "output_sizes": [[1, 4]],
            "output_dtypes": ["Float"],
            "state": "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None,
            "retired": False,
            "timeout_ms": 600000,
            "is_p2p": False,
            "frames": FRAMES,
        }
    )


def dump(layout: Layout, rank: int, entries: list[dict[str, Any]], *, plain: bool = False) -> bytes:
    """The dump of a rank, a pickle, or JSON as torch_npu writes it: without frames."""
    config = {
        name: {"name": name, "desc": layout.titles[name], "ranks": str(list(ranks))}
        for name, ranks in layout.groups.items()
        if rank in ranks
    }
    whole = {"version": "2.4", "pg_config": config, "pg_status": {}, "entries": entries}
    if not plain:
        return pickle.dumps(whole, protocol=2)
    bare = [{key: entry[key] for key in entry if key != "frames"} for entry in entries]
    return json.dumps({**whole, "entries": bare}).encode()


def traces(layout: Layout, ranks: dict[int, Rank]) -> dict[int, RankTrace]:
    return {
        rank: parse_dump(dump(layout, rank, state.entries), rank, "dump")
        for rank, state in ranks.items()
    }


def write_thousand(folder: Path, *, world: int, entries: int, guilty: int) -> None:
    """Dumps of ``world`` ranks in groups of 8 and the world, of which one did not come."""
    groups = {"0": tuple(range(world))}
    titles = {"0": "default_pg"}
    for start in range(0, world, 8):
        name = str(len(groups))
        groups[name] = tuple(range(start, start + 8))
        titles[name] = "TENSOR_MODEL_PARALLEL_GROUP"
    layout = Layout(groups=groups, titles=titles, world=world)
    for rank in range(world):
        own = Rank(program=[])
        for number in range(entries):
            name = "0" if number % 8 == 7 else str(1 + rank // 8)
            _enqueue(own, name, "all_reduce", layout)
            own.entries[-1]["state"] = "completed"
        if rank != guilty:
            _enqueue(own, "0", "all_reduce", layout)
        (folder / f"hccl_trace_rank_{rank}").write_bytes(dump(layout, rank, own.entries))


def rounds(seed: int, count: int) -> Iterator[tuple[random.Random, Layout]]:
    for number in range(count):
        chance = random.Random(seed * 1000 + number)
        yield chance, draw_layout(chance)
