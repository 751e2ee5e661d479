"""Writes docs/records/level0.md: ``python -m tests.level0.page``."""

from collections.abc import Iterator
from pathlib import Path

from tests.level0.machine import table
from tests.level0.mutants import breakages, variations
from tests.level0.mutants import drops as dropped_answers

PAGE = Path(__file__).parents[2] / "docs" / "records" / "level0.md"
_HEAD = """# Record: what level 0 notices

`python -m tests.level0.page` writes this page from `tests/level0/*.yaml`, which list every case.
A test applies each case to a recorded machine of `tests/machines` and compares the findings.

## First sight

Labels were committed before the first run, on 2026-11-22, those of the kinds on 2026-11-28.

| cases | as labelled |
| --- | --- |
| breakages | 132 of 229 |
| dropped answers | 237 of 804 |
| healthy variations without an error | 48 of 48 |
| two breakages (seed 2026) | 40 of 40 |
| a breakage on a healthy variation (seed 2026) | 18 of 20 |
| two healthy variations, no error (seed 2026) | 20 of 20 |
| three breakages, moved to other devices (seed 4711) | 38 of 40 |
| two breakages on a healthy variation (seed 4711) | 20 of 20 |
| two healthy variations, no error (seed 4711) | 19 of 20 |
| kinds of breakages | 134 of 156 (17 labels were wrong) |
| two of them | 28 of 40 |
| kinds of healthy variations without an error | 61 of 61 |

## Today

The cases were learnt from. Thirteen labels were corrected and two breakages were added.
"""


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    rows = breakages()
    silent = [row for row in rows if not row.see]
    yield _HEAD
    yield "| cases | count |"
    yield "| --- | --- |"
    yield f"| breakages that are reported as labelled | {len(rows) - len(silent)} |"
    yield f"| breakages that no finding can show | {len(silent)} |"
    yield f"| answers dropped one at a time | {len(dropped_answers())} |"
    yield f"| rules that label the dropped answers | {len(table('drops'))} |"
    yield f"| healthy variations without an error | {len(variations())} |"
    yield "\n## Breakages that no finding shows\n"
    yield "| breakage | machine | reason |"
    yield "| --- | --- | --- |"
    yield from (f"| {_cell(row.what)} | {row.on} | {_cell(row.because)} |" for row in silent)
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
