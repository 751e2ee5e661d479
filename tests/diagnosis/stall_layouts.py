"""Stalls of random layouts, as the dumps of their ranks would show them: made, and labelled."""

import json
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascend_doctor.diagnosis.recorder import EXCHANGES, RankTrace, parse_dump

STEPS = 4
FRAMES = [
    {"name": "all_reduce", "filename": "/env/lib/python3.11/site-packages/torch/x.py", "line": 7},
    {"name": "train", "filename": "/job/train.py", "line": 40},
]


@dataclass
class Rank:
    """A rank that runs (group, operation) calls, and its state."""

    program: list[tuple[str, str]]
    at: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """Groups by name, in the order in which each member uses them."""

    groups: dict[str, tuple[int, ...]]
    titles: dict[str, str]
    world: int


def draw_layout(chance: random.Random) -> Layout:
    """Tensor, data and world groups over a grid, in a random order of use."""
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
    """Every rank's step, by group titles."""
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
    """Every rank queues up to ``ahead`` calls; what all members began ends."""
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
    """A rank's dump: a pickle, or JSON without frames, like torch_npu's."""
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
    """Dumps of ``world`` ranks in groups of 8 and the world; one rank did not come."""
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


# --- Megatron's pipeline


@dataclass
class Stage:
    """A pipeline rank with tensor groups: its calls, and what is open of each batch."""

    program: list[str]
    at: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    open: set[tuple[str, int]] = field(default_factory=set)


@dataclass(frozen=True)
class Pipeline:
    """``stages`` times ``width`` ranks; rank = stage * width + place in the tensor group."""

    stages: int
    width: int

    @property
    def world(self) -> int:
        return self.stages * self.width

    def line(self, rank: int) -> tuple[int, ...]:
        return tuple(range(rank % self.width, self.world, self.width))

    def tensor(self, rank: int) -> tuple[int, ...]:
        first = rank // self.width * self.width
        return tuple(range(first, first + self.width))

    def schedule(self, rank: int, micro_batches: int) -> list[str]:
        """One forward, one backward, as in megatron/core/pipeline_parallel/schedules.py."""
        stage = rank // self.width
        first, last = stage == 0, stage == self.stages - 1
        ahead = min(self.stages - stage - 1, micro_batches)
        forward = ([] if first else ["recv_forward"]) + ["tensor"]
        backward = ["tensor"] + ([] if first else ["send_backward"])
        calls: list[str] = []
        for _ in range(ahead):
            calls += [*forward, "send_forward"]
        for _ in range(micro_batches - ahead):
            calls += [*forward, *([] if last else ["send_forward_recv_backward"]), *backward]
        for _ in range(ahead):
            calls += ["recv_backward", *backward]
        return [*calls, "world"]


def run_pipeline(pipeline: Pipeline, work: dict[int, list[str]]) -> dict[int, RankTrace]:
    """Every rank's record once nothing moves: each waits for every call."""
    stages = {rank: Stage(program=program) for rank, program in work.items()}
    moved = True
    while moved:
        moved = False
        for rank, stage in stages.items():
            if stage.at < len(stage.program) and not _head(stage):
                _begin(pipeline, rank, stage)
                moved = True
        for rank, stage in stages.items():
            moved |= _end(pipeline, rank, stage, stages)
    config = {
        rank: {
            "0": {"desc": "default_pg", "ranks": str(list(range(pipeline.world)))},
            "5": {"desc": "PIPELINE_MODEL_PARALLEL_GROUP", "ranks": str(list(pipeline.line(rank)))},
            "7": {"desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": str(list(pipeline.tensor(rank)))},
        }
        for rank in stages
    }
    return {
        rank: parse_dump(
            json.dumps({"pg_config": config[rank], "entries": stage.entries}).encode(), rank, "x"
        )
        for rank, stage in stages.items()
    }


def _head(stage: Stage) -> dict[str, Any] | None:
    pending = stage.entries and stage.entries[-1]["state"] != "completed"
    return stage.entries[-1] if pending else None


def _begin(pipeline: Pipeline, rank: int, stage: Stage) -> None:
    call = stage.program[stage.at]
    stage.at += 1
    group = {"tensor": "7", "world": "0"}.get(call, "5")
    batch = group == "5"
    before = sum(entry["process_group"][0] == group for entry in stage.entries)
    line = pipeline.line(rank)
    stage.open = {
        (operation, line[(line.index(rank) + step) % len(line)])
        for operation, step in EXCHANGES.get(call, ())
    }
    functions = ["_batch_isend_irecv", call] if batch else ["all_reduce"]
    stage.entries.append(
        {
            "record_id": len(stage.entries),
            "process_group": [group, ""],
            "collective_seq_id": 0 if batch else before + 1,
            "p2p_seq_id": before + 1 if batch else 0,
            "profiling_name": "hccl:coalesced" if batch else "",
            "state": "scheduled",
            "is_p2p": False,
            "frames": [{"name": name, "filename": "/job/x.py", "line": 1} for name in functions],
        }
    )


def _end(pipeline: Pipeline, rank: int, stage: Stage, stages: dict[int, Stage]) -> bool:
    """Whether a rank's call went on: a collective whole, a batch by transfers."""
    head = _head(stage)
    if head is None:
        return False
    group = head["process_group"][0]
    if group == "5":
        done = {
            (operation, peer)
            for operation, peer in stage.open
            if ("recv" if operation == "send" else "send", rank) in stages[peer].open
        }
        for operation, peer in done:
            stages[peer].open.discard(("recv" if operation == "send" else "send", rank))
            _complete(stages[peer])
        stage.open -= done
        _complete(stage)
        return bool(done)
    members = pipeline.tensor(rank) if group == "7" else tuple(range(pipeline.world))
    heads = [_head(stages[member]) for member in members]
    key = (group, head["collective_seq_id"])
    if any(
        not other or (other["process_group"][0], other["collective_seq_id"]) != key
        for other in heads
    ):
        return False
    for other in heads:
        assert other
        other["state"] = "completed"
    return True


def _complete(stage: Stage) -> None:
    head = _head(stage)
    if head and head["process_group"][0] == "5" and not stage.open:
        head["state"] = "completed"
