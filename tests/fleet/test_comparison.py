from pathlib import Path

from ascend_doctor.cli import run
from ascend_doctor.comparison.differences import Difference, differences
from ascend_doctor.facts import Distribution, Snapshot
from tests.fleet.nodes import node, write

EXTRA = (Distribution(name="tqdm", version="1"),)


def test_what_matters_most_stands_first() -> None:
    left, right = (
        node("a", torch="2.7.1", variables={"HCCL_BUFFSIZE": "200"}).snapshot,
        node("b", torch="2.6.0", extra=EXTRA).snapshot,
    )
    assert differences(left, right, frozenset({"torch"})) == (
        Difference(group="stack", setting="torch", left="2.7.1", right="2.6.0"),
        Difference(group="environment", setting="HCCL_BUFFSIZE", left="200", right="(absent)"),
        Difference(group="packages", setting="tqdm", left="(absent)", right="1"),
    )


def test_a_section_that_was_not_collected_is_untold() -> None:
    changes = differences(node("a").snapshot, Snapshot(), frozenset())
    assert changes
    assert {difference.right for difference in changes} == {"(could not tell)"}


def test_the_command_says_so(tmp_path: Path, capsys: object) -> None:
    write(tmp_path, node("a"), node("b", torch="2.6.0"))
    assert run(["diff", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 1
    assert run(["diff", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 0
    assert run(["diff", str(tmp_path / "a.json"), str(tmp_path / "none.json")]) == 2
    output = capsys.readouterr().out  # type: ignore[attr-defined]
    assert "torch: 2.7.1 -> 2.6.0" in output
