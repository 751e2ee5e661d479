"""Who waits for whom, of dumps and stacks: random layouts, and never the wrong rank."""

import contextlib
import json
import pickle
import random
import resource
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.diagnosis.job import JobOptions
from ascend_doctor.diagnosis.logs import find
from ascend_doctor.diagnosis.recorder import RankTrace, TracedCall, TracedGroup, parse_dump
from ascend_doctor.diagnosis.stacks import (
    Frame,
    parse_faulthandler,
    parse_npu_traceback,
    parse_py_spy,
    program_frame,
    waits_in_torch,
)
from ascend_doctor.diagnosis.stall_files import read_stall_files
from ascend_doctor.diagnosis.stall_judge import judge_stall
from ascend_doctor.diagnosis.stall_result import AbsentRank, Stall, Standing
from ascend_doctor.errors import DataError
from tests.diagnosis import stalls
from tests.diagnosis.logs import guilty_of, reader
from tests.diagnosis.stall_layouts import (
    STEPS,
    Pipeline,
    draw_layout,
    draw_round,
    dump,
    programs,
    run,
    run_pipeline,
    traces,
    write_thousand,
)
from tests.programs import run_program

AT = Frame(file="/job/train.py", line=12, function="load")
DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))


def accuse(stall: object) -> list[int]:
    return [rank.rank for rank in stall.absent]  # type: ignore[attr-defined]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 30), ahead=st.integers(1, 12))
def test_a_rank_that_stops_calling_is_named(seed: int, ahead: int) -> None:
    chance = random.Random(seed)
    layout = draw_layout(chance)
    work = programs(layout, draw_round(chance))
    guilty = chance.randrange(layout.world)
    work[guilty] = work[guilty][: chance.randrange(len(work[guilty]))]
    stall = judge_stall(traces(layout, run(layout, work, ahead)), {}, layout.world)
    assert accuse(stall) == [guilty], stall
    assert all(guilty not in waits.ranks for waits in stall.waiting)
    assert stall.waiting


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 30), ahead=st.integers(1, 12))
def test_a_stopped_rank_without_a_dump_is_named(seed: int, ahead: int) -> None:
    chance = random.Random(seed)
    layout = draw_layout(chance)
    work = programs(layout, draw_round(chance))
    guilty = chance.randrange(layout.world)
    work[guilty] = work[guilty][: chance.randrange(len(work[guilty]))]
    dumps = traces(layout, run(layout, work, ahead))
    del dumps[guilty]
    silent = judge_stall(dumps, {}, layout.world)
    assert accuse(silent) == []
    assert str(guilty) in silent.undecided
    for state, kind in (("T", "stopped"), ("gone", "gone")):
        stall = judge_stall(dumps, {guilty: Standing(rank=guilty, state=state)}, layout.world)
        assert [(rank.rank, rank.kind) for rank in stall.absent] == [(guilty, kind)]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 30), ahead=st.integers(2, 12))
def test_another_order_is_named_or_nobody(seed: int, ahead: int) -> None:
    chance = random.Random(seed)
    layout = draw_layout(chance)
    steps = draw_round(chance)
    work = programs(layout, steps)
    guilty = chance.randrange(layout.world)
    at = chance.randrange(len(steps), (STEPS - 1) * len(steps))
    program = work[guilty]
    program[at], program[at + 1] = program[at + 1], program[at]
    stall = judge_stall(traces(layout, run(layout, work, ahead)), {}, layout.world)
    assert accuse(stall) in ([], [guilty]), stall


@pytest.mark.slow
def test_most_swapped_orders_are_told() -> None:
    named = stalled = 0
    for seed in range(120):
        chance = random.Random(seed)
        layout = draw_layout(chance)
        steps = draw_round(chance)[:3]
        work = programs(layout, steps)
        guilty = chance.randrange(layout.world)
        at = chance.randrange(len(steps), 2 * len(steps))
        program = work[guilty]
        program[at], program[at + 1] = program[at + 1], program[at]
        ranks = run(layout, work, 8)
        if all(rank.at == len(rank.program) and not rank.entries for rank in ranks.values()):
            continue
        stall = judge_stall(traces(layout, ranks), {}, layout.world)
        stalled += bool(stall.waiting)
        named += accuse(stall) == [guilty]
    assert stalled > 60
    assert named / stalled > 0.8, (named, stalled)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_program_that_ends_accuses_nobody(seed: int) -> None:
    chance = random.Random(seed)
    layout = draw_layout(chance)
    work = programs(layout, draw_round(chance))
    stall = judge_stall(traces(layout, run(layout, work, 3)), {}, layout.world)
    assert not stall.absent
    assert not stall.waiting


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_rank_that_waits_for_something_else_is_not_accused(seed: int) -> None:
    """In a barrier of gloo, or the store."""
    chance = random.Random(seed)
    layout = draw_layout(chance)
    work = programs(layout, draw_round(chance))
    idle = chance.randrange(layout.world)
    work[idle] = work[idle][: chance.randrange(len(work[idle]))]
    torch = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    frames = (Frame(file=torch, line=5, function="barrier"), AT)
    stall = judge_stall(
        traces(layout, run(layout, work, 4)), {idle: Standing(rank=idle, frames=frames)}
    )
    # Where all others wait in one other call, it is named.
    assert all((each.rank, each.kind) == (idle, "other call") for each in stall.absent)
    assert stall.absent or "waits for something" in stall.undecided


def pair(rank: int, calls: list[TracedCall]) -> RankTrace:
    groups = {"0": TracedGroup(name="0", title="PIPELINE", ranks=(0, 1))}
    groups["9"] = TracedGroup(name="9", title="WORLD", ranks=(0, 1, 2))
    return RankTrace(rank=rank, groups=groups, calls=tuple(calls))


def call(group: str, number: int, operation: str, *, done: bool, p2p: bool = False) -> TracedCall:
    return TracedCall(group=group, number=number, operation=operation, done=done, p2p=p2p)


def test_a_peer_that_does_not_send_is_named() -> None:
    rounds = [call("0", n, "send", done=True, p2p=True) for n in (1, 2)]
    world = [call("9", n, "all_reduce", done=True) for n in (1, 2, 3)]
    sender = [world[0], rounds[0], world[1], rounds[1], world[2]]
    sender += [call("9", 4, "all_reduce", done=False)]
    receives = [call("0", n, "recv", done=n < 3, p2p=True) for n in (1, 2, 3)]
    receiver = [world[0], receives[0], world[1], receives[1], world[2], receives[2]]
    third = [*world, call("9", 4, "all_reduce", done=False)]
    stall = judge_stall({0: pair(0, sender), 1: pair(1, receiver), 2: pair(2, third)}, {})
    assert accuse(stall) == [0]
    assert stall.absent[0].kind == "other call"


def batches(rank: int, functions: list[str], *, done: int) -> RankTrace:
    """A rank of a three-stage pipeline, with batches of Megatron's functions."""
    entries = [
        {
            "record_id": number,
            "process_group": ["5", "PIPELINE_MODEL_PARALLEL_GROUP"],
            "collective_seq_id": 0,
            "p2p_seq_id": number + 1,
            "profiling_name": "hccl:coalesced",
            "state": "completed" if number < done else "scheduled",
            "is_p2p": False,
            "frames": [
                {"name": name, "filename": "/job/p2p_communication.py", "line": 5}
                for name in ("_batch_isend_irecv", f"P2PCommunicator.{function}")
            ],
        }
        for number, function in enumerate(functions)
    ]
    config = {"5": {"desc": "PIPELINE_MODEL_PARALLEL_GROUP", "ranks": "[0, 1, 2]"}}
    data = json.dumps({"pg_config": config, "entries": entries}).encode()
    return parse_dump(data, rank, "x")


def test_batches_of_a_pipeline_are_told_by_megatrons_functions() -> None:
    """The last stage is elsewhere: the others wait down the line, not in one collective."""
    middle = ["recv_forward", "send_forward_recv_backward"]
    traces_of = {
        0: batches(0, ["send_forward", "recv_backward", "send_forward", "recv_backward"], done=3),
        1: batches(1, [*middle, "send_backward", *middle], done=4),
        2: batches(2, ["recv_forward", "send_backward"], done=2),
    }
    stall = judge_stall(traces_of, {}, 3)
    assert accuse(stall) == [2]
    assert {(w.ranks, w.operation, w.waits_for) for w in stall.waiting} == {
        ((0,), "recv_backward", (1,)),
        ((1,), "send_forward_recv_backward", (2,)),
    }


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_rank_that_stops_in_a_pipeline_is_named(seed: int) -> None:
    chance = random.Random(seed)
    pipeline = Pipeline(stages=chance.choice([2, 3, 4, 8]), width=chance.choice([1, 2, 4]))
    steps, micro_batches = 3, chance.choice([1, 2, 4])
    work = {rank: pipeline.schedule(rank, micro_batches) * steps for rank in range(pipeline.world)}
    guilty = chance.randrange(pipeline.world)
    work[guilty] = work[guilty][: chance.randrange(len(work[guilty]))]
    stall = judge_stall(run_pipeline(pipeline, work), {}, pipeline.world)
    assert accuse(stall) == [guilty], stall


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_transfer_that_is_left_out_accuses_that_rank_or_nobody(seed: int) -> None:
    chance = random.Random(seed)
    pipeline = Pipeline(stages=chance.choice([2, 3, 4]), width=chance.choice([1, 2]))
    work = {rank: pipeline.schedule(rank, 2) * 4 for rank in range(pipeline.world)}
    guilty = chance.randrange(pipeline.world)
    program = work[guilty]
    transfers = [
        at
        for at in range(len(program) // 2, len(program))
        if "send" in program[at] or "recv" in program[at]
    ]
    del program[chance.choice(transfers)]
    stall = judge_stall(run_pipeline(pipeline, work), {}, pipeline.world)
    assert accuse(stall) in ([], [guilty]), stall


def test_a_batch_without_frames_accuses_nobody() -> None:
    dumps = {rank: batches(rank, ["recv_forward"] * 3, done=3 - (rank != 1)) for rank in range(3)}
    bare = {
        rank: msgspec.structs.replace(
            trace,
            calls=tuple(
                msgspec.structs.replace(call, frames=(), operation="batch_isend_irecv")
                for call in trace.calls
            ),
        )
        for rank, trace in dumps.items()
    }
    stall = judge_stall(bare, {}, 3)
    assert not stall.absent
    assert "nobody can tell" in stall.undecided


def test_a_node_without_files_is_named_and_nobody_accused() -> None:
    groups = {"9": TracedGroup(name="9", ranks=(0, 1, 2, 3))}
    waits = call("9", 1, "all_reduce", done=False)
    dumps = {rank: RankTrace(rank=rank, groups=groups, calls=(waits,)) for rank in (0, 1)}
    stall = judge_stall(dumps, {}, 4)
    assert not stall.absent
    assert stall.silent == (2, 3)
    assert "their node is gone, or its files are elsewhere" in stall.undecided


def test_a_rank_without_a_dump_is_not_accused_and_its_line_is_told() -> None:
    """It may hold the interpreter's lock in a call that waits for others."""
    groups = {"9": TracedGroup(name="9", ranks=(0, 1, 2))}
    waits = call("9", 1, "all_reduce", done=False)
    dumps = {rank: RankTrace(rank=rank, groups=groups, calls=(waits,)) for rank in (0, 1)}
    running = Standing(rank=2, state="R", frames=(AT,))
    stall = judge_stall(dumps, {2: running}, 3)
    assert not stall.absent
    assert f"it stands at {AT}" in stall.undecided
    before = msgspec.structs.replace(running, age=40.0)
    assert "nothing is known of rank 2" in judge_stall(dumps, {2: before}, 3).undecided


def in_call(name: str, line: int) -> tuple[Frame, ...]:
    library = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    return (
        Frame(file=library, line=7, function=name),
        Frame(file="/job/t.py", line=line, function="f"),
    )


@pytest.mark.parametrize("world", [2, 3, 5, 8])
def test_without_recorders_the_one_in_another_call_is_named(world: int) -> None:
    for guilty in range(world):
        standings = {
            rank: Standing(rank=rank, frames=in_call("all_reduce", 9)) for rank in range(world)
        }
        assert not judge_stall({}, standings).absent
        standings[guilty] = Standing(rank=guilty, frames=in_call("recv", 4))
        stall = judge_stall({}, standings)
        assert accuse(stall) == ([guilty] if world > 2 else [])
        assert world == 2 or stall.absent[0].line == "/job/t.py:4 in f"
        # Whoever waits at another line may be the one that is right.
        more = {**standings, world: Standing(rank=world, frames=in_call("all_reduce", 8))}
        assert not judge_stall({}, more).absent


@pytest.mark.parametrize("npu", [True, False])
def test_a_rank_in_a_compiled_call_may_wait_for_its_npu_if_it_has_one(npu: bool) -> None:
    standings = {rank: Standing(rank=rank, frames=in_call("all_reduce", 9)) for rank in range(3)}
    standings[1] = Standing(rank=1, frames=(AT,), source="select.select(r, [], [])", npu=npu)
    assert accuse(judge_stall({}, standings)) == ([] if npu else [1])


def test_the_first_call_of_a_small_group_accuses_nobody() -> None:
    for ranks, absent in (((0, 1), []), ((0, 1, 2), [0])):
        groups = {"9": TracedGroup(name="9", ranks=(0, 1, 2))}
        fresh = {**groups, "5": TracedGroup(name="5", ranks=ranks)}
        rounds = [call("9", n, "all_reduce", done=True) for n in (1, 2, 3)]
        waits = call("9", 4, "all_reduce", done=False)
        first = call("5", 1, "all_reduce", done=False)
        dumps = {
            rank: RankTrace(rank=rank, groups=groups, calls=(*rounds, waits)) for rank in (1, 2)
        }
        dumps[0] = RankTrace(rank=0, groups=fresh, calls=(*rounds, first))
        stall = judge_stall(dumps, {})
        assert accuse(stall) == absent
        assert bool(stall.undecided) == (not absent)


def at_line(number: int) -> tuple[Frame, ...]:
    return (Frame(file="/job/train.py", line=number, function="finish"),)


def superfluous(wrong: int, *, earlier: tuple[int, ...] = ()) -> Stall:
    """Rank 1 calls all stages' group at line ``wrong`` too, before line 220.

    The others end the first with theirs and come to the barrier. ``earlier``: lines where rank 1
    called so before.
    """
    groups = {
        "9": TracedGroup(name="9", ranks=(0, 1, 2)),
        "5": TracedGroup(name="5", ranks=(0, 1, 2)),
    }
    dumps = {}
    for rank in range(3):
        calls = []
        for step in (1, 2, 3, 4):
            line = wrong if rank == 1 and step == 4 else 220
            line = earlier[0] if rank == 1 and step == 2 and earlier else line
            rows = [("5", step, line, True), ("9", step, 246, step < 4)]
            if rank == 1 and step == 4:
                rows[1] = ("5", 5, 220, False)
            calls += [
                msgspec.structs.replace(
                    call(group, number, "all_reduce", done=done), frames=at_line(line)
                )
                for group, number, line, done in rows
            ]
        dumps[rank] = RankTrace(rank=rank, groups=groups, calls=tuple(calls))
    return judge_stall(dumps, {}, 3)


def test_the_superfluous_of_two_calls_of_a_group_is_told() -> None:
    stall = superfluous(154)
    assert accuse(stall) == [1]
    assert ":154 " in stall.absent[0].call


def test_no_line_is_told_where_either_call_may_be_the_superfluous_one() -> None:
    stall = superfluous(154, earlier=(154,))
    assert accuse(stall) == [1]
    assert stall.absent[0].call == ""
    assert ":220 " in superfluous(220).absent[0].call


def test_the_first_call_of_a_group_is_told_by_the_rank_itself(tmp_path: Path) -> None:
    """torch_npu then knows the group, but no call."""
    world = {"name": "group_name_0", "desc": "", "ranks": "[0, 1, 2]"}
    for rank in range(3):
        entries = [
            {
                "record_id": number,
                "process_group": ["group_name_0", ""],
                "collective_seq_id": number,
                "p2p_seq_id": 0,
                "profiling_name": "",
                "state": "completed" if number < 3 else "scheduled",
                "is_p2p": False,
            }
            for number in range(4 if rank else 3)
        ]
        groups = {"group_name_0": world}
        if rank == 0:
            groups["group_name_5"] = {**world, "name": "group_name_5"}
        dumped = {"pg_config": groups, "version": "2.4", "entries": entries}
        (tmp_path / f"hccl_trace_rank_{rank}").write_text(json.dumps(dumped))
    calls = {"name": "5", "title": "EMBEDDING_GROUP", "ranks": [0, 1, 2], "operation": "all_reduce"}
    (tmp_path / "rank-0.call").write_text(json.dumps(calls))
    stall = read_stall_files([str(tmp_path)]).judge()
    assert stall
    assert accuse(stall) == [0]
    assert "EMBEDDING_GROUP" in stall.absent[0].reason


def test_who_waits_for_a_file_lock_is_not_accused_but_its_holder() -> None:
    group = {"9": TracedGroup(name="9", ranks=(0, 1, 2))}
    done = call("9", 1, "all_reduce", done=True)
    waits = call("9", 2, "all_reduce", done=False)
    dumps = {
        rank: RankTrace(rank=rank, groups=group, calls=(done, waits) if rank == 2 else (done,))
        for rank in range(3)
    }
    standings = {
        0: Standing(rank=0, frames=(AT,), lock_holder=1),
        1: Standing(rank=1, frames=(AT,)),
    }
    assert accuse(judge_stall(dumps, standings)) == [1]


@pytest.mark.parametrize(
    "case",
    [
        stalls.Case(kind="sleep", guilty=(2,), step=1, layout=stalls.LAYOUTS[4][0]),
        stalls.Case(kind="node", guilty=(2, 3), step=1, layout=stalls.LAYOUTS[4][0], nodes=2),
    ],
    ids=lambda case: str(case.name),
)
def test_a_real_stall_on_simulated_npus(
    case: stalls.Case, tmp_path: Path, examined_python: Path
) -> None:
    env = stalls.simulate(examined_python)
    gathered, _ = stalls.make(case, tmp_path, examined_python, env)
    marks = stalls.judge(case, read_stall_files([str(gathered)]).judge())
    assert set(marks.values()) <= {"right", "not known"}, marks
    assert marks["rank"] == "right"


def test_the_stalls_are_of_every_kind_and_each_has_its_line() -> None:
    cases = stalls.draw(5, 24, spies=True)
    assert cases == stalls.draw(5, 24, spies=True)
    assert {case.kind for case in cases} == set(stalls.KINDS)
    assert all(case.line for case in cases)


# --- formats


def test_dumps_in_both_formats_say_the_same() -> None:
    chance = random.Random(7)
    layout = draw_layout(chance)
    work = programs(layout, draw_round(chance))
    work[1] = work[1][:5]
    ranks = run(layout, work, 4)
    for rank, state in ranks.items():
        packed = parse_dump(dump(layout, rank, state.entries), rank, "x")
        plain = parse_dump(dump(layout, rank, state.entries, plain=True), rank, "x")
        assert packed.groups == plain.groups
        assert [c.number for c in packed.calls] == [c.number for c in plain.calls]
        assert packed.calls[0].frames[-1] == Frame(file="/job/train.py", line=40, function="train")


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("it ran",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"version": "2.4", "pg_config": Hostile(), "entries": []}, protocol=2),
        b"\x80\x02version" + b"garbage",
        b"\x80\x02}q\x00r\xff\xff\xff\xff.",
        b'{"pg_config": {"0": 1}, "entries": 5}',
        b'{"pg_config": [], "entries": [{}]}',
    ],
)
def test_a_dump_that_is_a_program_or_nonsense_is_refused(
    data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=r"^x: "):
        parse_dump(data, 0, "x")
    assert "it ran" not in capsys.readouterr().out


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"\x80\x02", b'{"pg_config": {}, ']))
def test_any_bytes_are_read_or_refused(data: bytes, head: bytes) -> None:
    with contextlib.suppress(DataError):
        parse_dump(head + data, 0, "x")


def test_nccl_names_its_peers() -> None:
    entry = {
        "record_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 0,
        "p2p_seq_id": 1, "profiling_name": "nccl:recv 1<-0", "state": "scheduled",
        "is_p2p": True, "input_sizes": [[1]],
    }  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[4, 6]"}}
    data = pickle.dumps({"version": "2.9", "pg_config": config, "entries": [entry]}, protocol=2)
    (call,) = parse_dump(data, 6, "x").calls
    assert (call.operation, call.peer, call.p2p) == ("recv", 4, True)


FAULTHANDLER = """Thread 0x00007ff1468fe6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait

Current thread 0x00007ff170468b80 (most recent call first):
  File "/env/lib/python3.11/site-packages/torch_npu/npu/utils.py", line 75 in synchronize
  File "/job/hang.py", line 80 in main
  File "/job/hang.py", line ??? in <module>
"""


def test_stacks_of_faulthandler_py_spy_and_torch_npu() -> None:
    (threads,) = parse_faulthandler(FAULTHANDLER)
    main = threads[-1]
    assert [thread.main for thread in threads] == [False, True]
    assert program_frame(main.frames) == Frame(file="/job/hang.py", line=80, function="main")
    assert waits_in_torch(main.frames)
    (named,) = parse_faulthandler(FAULTHANDLER, "0x00007ff1468fe6c0")
    assert [thread.main for thread in named] == [True, False]
    assert len(parse_faulthandler(FAULTHANDLER * 2)) == 2
    spy = [
        {
            "thread_id": 5,
            "thread_name": "MainThread",
            "frames": [{"filename": "/job/a.py", "line": 3, "name": "f"}],
        }
    ]
    assert parse_py_spy(json.dumps(spy), "x")[0].main
    text = (
        "pid: 7\nthread <_MainThread(MainThread, started 14)>:\n"
        '  File "/job/a.py", line 9, in <module>\n    main()\n  File "/job/a.py", line 3, in main\n'
    )
    (thread,) = parse_npu_traceback(text)
    assert thread.main
    assert thread.frames[0].line == 3
    with pytest.raises(DataError):
        parse_py_spy("{", "x")


def test_the_wrapper_of_a_deprecated_function_is_not_the_program() -> None:
    library = "/env/lib/python3.11/site-packages"
    frames = [
        Frame(file=f"{library}/torch/distributed/distributed_c10d.py", line=9, function="gather"),
        Frame(file=f"{library}/typing_extensions.py", line=3140, function="wrapper"),
        Frame(file="/job/layer.py", line=7, function="forward"),
    ]
    assert str(program_frame(frames)) == "/job/layer.py:7 in forward"


# --- the command


def test_a_host_folder_of_an_earlier_run_is_named_and_not_mixed(tmp_path: Path) -> None:
    """Two hosts now; a third is from an earlier run, whose rank 0 now runs elsewhere."""
    for host, first, armed in (("a", 0, 900.0), ("b", 2, 901.0), ("c", 0, 100.0)):
        folder = tmp_path / "run-stall" / host
        (folder / "plog").mkdir(parents=True)
        (folder / "plog" / "plog-7_20260301100000000.log").write_text("[ERROR] HCCL(7,x): old\n")
        for rank in (first, first + 1):
            state = {"rank": rank, "world_size": 4, "host": host, "state": "S", "pid": 7}
            (folder / f"rank-{rank}.state").write_text(json.dumps(state))
            (folder / f"rank-{rank}.json").write_text(json.dumps({**state, "armed": armed}))
    files = read_stall_files([str(tmp_path)])
    assert {rank: state.host for rank, state in files.states.items()} == {
        **dict.fromkeys((0, 1), "a"),
        **dict.fromkeys((2, 3), "b"),
    }
    assert [(Path(name).name, why) for name, why in files.unreadable] == [
        ("c", "of an earlier run")
    ]
    old = str(tmp_path / "run-stall" / "c")
    assert f"{old}/plog/plog-7_20260301100000000.log" in files.paths
    for path in (tmp_path / "run-stall" / "a").glob("rank-*.json"):
        path.write_text(path.read_text().replace('"world_size": 4', '"world_size": 2'))
    assert "b" not in {Path(name).name for name, _ in read_stall_files([str(tmp_path)]).unreadable}


TORCHRUN = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-25_06:12:02
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : {code} (pid: 6331)
  error_file: <N/A>
============================================================
"""


@pytest.mark.parametrize(
    ("log", "action", "ranks"),
    [
        (TORCHRUN.format(code=-9), "restart", (1,)),  # by whoever saw that it hung
        (TORCHRUN.format(code=-15), "restart", (1,)),
        ("[rank0]: KeyboardInterrupt\n", "restart", (1,)),
        ("", "restart", (1,)),
        ("[rank2]: ValueError: no such sample\n" + TORCHRUN.format(code=1), "stop", (0,)),
        (TORCHRUN.format(code=-11), "stop", (0,)),
    ],
    ids=["SIGKILL", "SIGTERM", "interrupt", "nothing", "exception", "crash"],
)
def test_a_hang_that_was_ended_is_judged_by_the_hang(
    log: str, action: str, ranks: tuple[int, ...], tmp_path: Path
) -> None:
    stall = Stall(
        ranks=(0, 1, 2),
        world_size=3,
        absent=(AbsentRank(rank=1, kind="stopped", reason="its process is stopped"),),
    )
    path = tmp_path / "train.log"
    path.write_text(f"step 7\n{log}", "utf-8")
    diagnosis = reader(JobOptions(stall=stall)).diagnose(*find((str(path),)))
    assert diagnosis.verdict
    assert diagnosis.verdict.action == action
    assert guilty_of(diagnosis).ranks == ranks


@pytest.mark.slow
def test_a_thousand_ranks_in_seconds(tmp_path: Path) -> None:
    write_thousand(tmp_path, world=1024, entries=128, guilty=517)
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_program([DOCTOR, "diagnose", "--format", "json", str(tmp_path)], check=False)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
    assert done.returncode == 1, done.stderr
    stall = json.loads(done.stdout)["stall"]
    assert [rank["rank"] for rank in stall["absent"]] == [517]
    assert stall["waiting"][0]["operation"] == "all_reduce"
    assert stall["waiting"][0]["group"] == "default_pg"
    assert len(stall["waiting"][0]["ranks"]) == 1023
    sys.stdout.write(f"{seconds:.1f} s\n")
    assert seconds < 5


@pytest.mark.slow
def test_a_folder_of_a_stall_is_told_in_text(tmp_path: Path) -> None:
    write_thousand(tmp_path, world=16, entries=20, guilty=3)
    (tmp_path / "hccl_trace_rank_3_py_traceback").write_text(
        'thread <_MainThread(MainThread, started 14)>:\n  File "/job/a.py", line 9, in load\n'
    )
    done = run_program([DOCTOR, "diagnose", str(tmp_path)], check=False)
    assert done.returncode == 1
    assert "stalled: rank 3 did not come" in done.stdout
    assert "stands at /job/a.py:9 in load" in done.stdout
    assert "ranks 0-2,4-15 wait in all_reduce number 3 of default_pg (ranks 0-15)" in " ".join(
        done.stdout.split()
    )
