"""Hangs of the real torch_npu on simulated NPUs: the right rank or nobody is accused."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ascend_doctor.simulator import Tree
from tests.conftest import QUIET
from tests.diagnosis.hangs import AT_ONCE, KINDS, RANKS, Hang, draw_hangs, judge_hang, make_hang
from tests.knobs import draw

FEW = [
    Hang(kind="sleep", guilty=2, step=1, layout="data", report=True),
    Hang(kind="order", guilty=0, step=1, layout="pipeline", report=False),
    Hang(kind="loader", guilty=1, step=2, layout="pipeline", report=True),
]


def verdicts(hangs: list[Hang], folder: Path, python: Path, built: Tree) -> dict[str, str]:
    environment = built.environment(
        os.environ | QUIET, soc="Ascend910B3", devices=RANKS, memory_bytes=1 << 30
    )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        places = pool.map(lambda hang: make_hang(hang, folder, python, environment), hangs)
        return {
            hang.name: judge_hang(hang, path)
            for hang, path in zip(hangs, places, strict=True)
            if path is not None
        }


def test_no_rank_is_accused_wrongly_of_a_hang(
    tmp_path: Path, simulated_python: Path, built: Tree
) -> None:
    hangs = {hang.name: hang for hang in (*FEW, *draw(draw_hangs(2026, 40), (), 5))}
    answers = verdicts([*hangs.values()], tmp_path, simulated_python, built)
    assert answers.keys() == hangs.keys()
    assert [name for name, answer in answers.items() if answer == "wrong"] == []
    assert answers[FEW[0].name] == "right"
    assert list(answers.values()).count("right") >= len(hangs) // 8


def test_the_hangs_are_of_every_kind_and_the_same_every_time() -> None:
    hangs = draw_hangs(2026, 40)
    assert len({hang.name for hang in hangs}) == 40
    assert {hang.kind for hang in hangs} == set(KINDS)
    assert hangs == draw_hangs(2026, 40)
