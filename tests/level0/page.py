"""Writes docs/level0-mutations.md: ``python -m tests.level0.page``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.level0.machine import table
from tests.level0.mutants import Mutant, breakages, variations
from tests.level0.mutants import drops as dropped_answers

PAGE = Path(__file__).parents[2] / "docs" / "level0-mutations.md"
_HEAD = """# What level 0 notices

This page is written by `python -m tests.level0.page`, and a test keeps it in step with
`tests/level0/*.yaml`. Another test breaks the recorded machines of `tests/machines` in each of
these ways, one at a time, and holds what the table says: the report has a finding of that check
and level which the report of the healthy machine has not. No check may crash. The machines are
recordings, composed from real output; see their `origin`.

Labels were written by hand before the first run. On {date} it gave: {first}
Afterwards the checks were mended, and these labels were changed: of the breakages two (a CANN that
tells no version at all, and a CANN that is too old and lacks no function), of the dropped answers
eleven rows, where the answer that was dropped contradicts another that still tells the fact. Two
breakages were added, labels that allowed several levels were narrowed to the one that is given, and
the server of two cards lost the addresses of eight in its /etc/hccn.conf. What holds now was
learnt from; the figures of the first run were not.
"""
_FIRST = (  # the run at the commit that added the labels
    "of 229 breakages 132 were seen as labelled and 97 were not (73 of them without a word, the "
    "others at another level or by another check); of 804 dropped answers 237 were as labelled; "
    "of 48 healthy variations none had an error."
)

_TOGETHER = """## Several at once, drawn at random

`python -m tests.level0.pairs` draws rows of the tables above that touch different things, a test
holds them, and the label follows from the rows: each breakage is still named, and no check accuses
that does not for one of them alone. The draws were committed before the first run, which gave:

| 2026-11-22, first sight | as labelled |
| --- | --- |
| seed 2026: two breakages | 40 of 40 |
| a breakage on a healthy variation | 18 of 20 |
| two healthy variations, no error | 20 of 20 |
| seed 4711: three breakages, moved to other devices | 38 of 40 |
| two breakages on a healthy variation | 20 of 20 |
| two healthy variations, no error | 19 of 20 |

Of the five that were not, four have a wrong label (the device with the fault is not there, the two
changes undo each other, one follows from the other) and one is named by another check;
`test_pairs.py` says so of each. Of 1,200 further draws 46 were not as labelled. All but two were
explained likewise, most by a command that failed and is named itself (what needs it is skipped and
says "see npu-smi"), two by a container that may see more cards than it was given. The others were
mended: an ASCEND_HOME_PATH into a folder that does not tell what it is, beside a whole CANN, went
by without a word, and functions that a torch_npu without its library calls were said to be there.
"""


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    rows = breakages()
    yield _HEAD.format(date="2026-11-22", first=f"\n\n{_FIRST}\n")
    seen = [one for one in rows if one.see]
    yield f"## Breakages that are seen: {len(seen)}\n"
    yield "| what is broken | on | what is said | check |"
    yield "| --- | --- | --- | --- |"
    for one in seen:
        yield f"| {_cell(one.what)} | {one.on} | {_levels(one)} | {_checks(one)} |"
    silent = [one for one in rows if not one.see]
    yield f"\n## Breakages of which nothing is said: {len(silent)}\n"
    yield "| what is broken | on | why |"
    yield "| --- | --- | --- |"
    for one in silent:
        yield f"| {_cell(one.what)} | {one.on} | {_cell(one.because)} |"
    yield from _dropped()
    yield from _healthy()
    yield _TOGETHER


def _dropped() -> Iterator[str]:
    count = len(dropped_answers())
    yield f"\n## Every recorded answer dropped once: {count}\n"
    yield (
        "Every command, path and value of healthy-a2 and healthy-a3 that level 0 asks for is taken "
        "away once, and every command and file that is read is emptied once. The first row that "
        "matches holds.\n"
    )
    yield "| answer | what is said |"
    yield "| --- | --- |"
    for row in table("drops"):
        only = ", ".join(row[key] for key in ("how", "machine") if key in row)
        names = ", ".join(f"`{_cell(one)}`" for one in row["match"])
        labels = row["see"] if isinstance(row["see"], list) else [row["see"]]
        said = " or ".join(labels) if labels != ["nothing"] else f"nothing: {row['because']}"
        yield f"| {names}{f' ({only})' if only else ''} | {_cell(said)} |"


def _healthy() -> Iterator[str]:
    rows = variations()
    yield f"\n## Healthy variations, none with an error: {len(rows)}\n"
    yield "| variation | of |"
    yield "| --- | --- |"
    for one in rows:
        yield f"| {_cell(one.what)} | {one.on} |"
    yield ""


def _levels(one: Mutant) -> str:
    return " or ".join(dict.fromkeys(level.value for level, _ in one.see))


def _checks(one: Mutant) -> str:
    return " or ".join(dict.fromkeys(f"`{check}`" for _, check in one.see))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
