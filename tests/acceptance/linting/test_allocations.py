"""Mistakes of allocations, seeded into real files: found at their lines, and silence elsewhere."""

from pathlib import Path

import msgspec

from ascend_doctor.linting.shellcheck import run_shellcheck
from tests.acceptance import clones
from tests.linting.judged import judge_text, mistakes
from tests.linting.test_allocations import NEW

TENTH = Path(__file__).with_name("tenth.yaml")


class Row(msgspec.Struct, frozen=True, array_like=True):
    path: str
    line: int = 0
    kind: str = ""
    old: str = ""
    new: str = ""
    edit: int = 0

    def judge(self, lines: list[str]) -> set[tuple[str, str, int]]:
        judged = mistakes(judge_text(self.path, "\n".join(lines), shellcheck=run_shellcheck))
        return {(x.check, x.title, x.location.line) for x in judged if x.location is not None}


# docs/records/lint.md has what was found at first sight.
def test_mistakes_of_allocations_are_found() -> None:
    hits = 0
    for group in msgspec.yaml.decode(TENTH.read_bytes())["launches"]:
        for row in msgspec.convert(group["files"], tuple[Row, ...]):
            lines = clones.show(group["repository"], *(group["at"] + row.path).split(":")[::-1])
            changed = lines.split("\n")
            before = row.judge(changed)
            if not row.line:
                assert not NEW & {check for check, *_ in before}, row.path
                continue
            at = (row.edit or row.line) - 1
            assert row.old in changed[at]
            changed[at] = changed[at].replace(row.old, row.new)
            same = {each[:2] for each in before}
            hits += any(each[2] == row.line and each[:2] not in same for each in row.judge(changed))
    assert hits >= 20
