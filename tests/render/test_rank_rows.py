"""Rows of ranks: alike ones together, of many ranks without their own times."""

from ascend_doctor.diagnosis.result import Diagnosis, RankEvent
from ascend_doctor.diagnosis.stall_result import AbsentRank, Stall, WaitingRanks
from ascend_doctor.findings import Level
from ascend_doctor.render.rank_rows import rank_rows


def diagnosis(*, world: int, **parts: object) -> Diagnosis:
    return Diagnosis(
        tool_version="1",
        outcome="stalled",
        exit_code=1,
        logs=1,
        lines=1,
        bytes=1,
        ranks=tuple(range(world)),
        nodes=(),
        world_size=world,
        **parts,  # type: ignore[arg-type]
    )


def test_who_did_not_come_stands_above_who_waits_and_who_is_silent() -> None:
    stall = Stall(
        ranks=(0, 1, 2),
        world_size=4,
        absent=(AbsentRank(rank=1, kind="stopped", reason="its process is stopped"),),
        waiting=(
            WaitingRanks(
                ranks=(0, 2),
                operation="all_reduce",
                number=4,
                group="default_pg",
                group_ranks=(0, 1, 2, 3),
                waits_for=(1, 3),
            ),
        ),
        silent=(3,),
    )
    rows = rank_rows(diagnosis(world=4, stall=stall))
    assert [(row.ranks, row.state, row.level) for row in rows] == [
        ((1,), "stopped", Level.ERROR),
        ((3,), "nothing known", Level.UNKNOWN),
        ((0, 2), "waits", Level.WARNING),
    ]
    assert rows[2].waits_for == ("1", "3")


def test_a_thousand_ranks_that_fail_alike_are_few_rows() -> None:
    timeline = tuple(
        RankEvent(rank=rank, failure="some-failure", after=rank / 10) for rank in range(1024)
    )
    rows = rank_rows(diagnosis(world=1030, timeline=timeline))
    assert [row.name for row in rows] == ["ranks 0-1023", "ranks 1024-1029"]
    assert rows[0].times[:2] == ((0.0, 0), (0.1, 1))
