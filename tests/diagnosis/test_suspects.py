"""What a failed run says that a good run of the same job does not."""

import random
from pathlib import Path

import pytest

from ascend_doctor.diagnosis.logs import find
from ascend_doctor.diagnosis.suspects import find_suspects
from tests.conftest import Command

CONSEQUENCES = [
    *(f"collective {number} waits for {number} s" for number in range(40)),
    "Traceback (most recent call last):",
    '  File "/job/a.py", line 7, in f',
    "    step(x)",
    "RuntimeError: step 9 did not end",
]


def make_run(seed: int, *, setting: str = "rate: 0.01", new: str = "", at: int = 0) -> str:
    """A log whose times, processes, losses, paths and order of ranks are of this run alone."""
    chance = random.Random(seed)
    rows = [f"seed: {chance.random()}", setting, setting, f"save: /out/{chance.random()}/x"]
    rows += [f"iteration {step}/ 40 | loss: {chance.random()}" for step in range(1, 40)]
    if new:
        rows[at:] = (
            [*rows[at:], new, *CONSEQUENCES] if at > 30 else [new, *rows[at:], *CONSEQUENCES]
        )
    return "".join(
        f"[rank{chance.randrange(4)}]: 2026-10-01 10:{chance.randrange(10, 60)}:00,123 INFO "
        f"(pid {chance.randrange(10**6)}) {row}\n"
        if row[:1].isalpha() and not row.startswith("Traceback")
        else f"[rank0]: {row}\n"
        for row in rows
    )


def suspects(folder: Path, bad: str, good: str) -> list[tuple[str, str]]:
    (folder / "bad").write_text(bad)
    (folder / "good").write_text(good)
    logs = [find((str(folder / name),))[0] for name in ("bad", "good")]
    return [(each.evidence.text, each.good) for each in find_suspects(*logs)]


@pytest.mark.parametrize("at", [2, 10, 29, 35])
def test_a_new_line_is_among_the_first_before_what_followed_from_it(
    at: int, tmp_path: Path
) -> None:
    for seed in range(5):
        bad = make_run(seed, new="peer 10.1.2.9 is late", at=at)
        texts = [text for text, _ in suspects(tmp_path, bad, make_run(seed + 99))]
        assert "peer 10.1.2.9 is late" in texts[:5]
        assert texts[0] == "RuntimeError: step 9 did not end"


def test_a_setting_of_another_value_is_shown_with_that_of_the_good_run(tmp_path: Path) -> None:
    texts = suspects(tmp_path, make_run(1, setting="rate: 0.5"), make_run(2))
    assert texts == [("rate: 0.5", "rate: 0.01")]


def test_two_good_runs_differ_in_nothing(tmp_path: Path) -> None:
    assert suspects(tmp_path, make_run(1), make_run(2)) == []


def test_the_page_shows_the_suspects(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text(make_run(1, new="peer is late", at=9))
    (tmp_path / "good").write_text(make_run(2))
    argv = ("diagnose", str(tmp_path / "bad"), "--good", str(tmp_path / "good"))
    page = doctor(*argv).stdout.partition("Lines that the good run lacks")[2]
    assert "peer is late" in " ".join(page.split())  # wherever lines are folded
    assert doctor(*argv, "-").returncode == 2
