"""Every attack that succeeded once has tests that exist, and what it did before."""

import ast
import functools
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.level0.mutants import breakages
from tests.surroundings.rows import ROWS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class Attack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    attack: str
    weight: str
    before: str
    tests: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    breakages: tuple[str, ...] = ()


def attacks() -> list[Attack]:
    return msgspec.convert(yaml.safe_load((HERE / "attacks.yaml").read_text()), list[Attack])


@functools.cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
def test_every_attack_has_tests_that_exist_and_was_seen_before() -> None:
    rows, broken = {row.name for row in ROWS}, {mutant.id for mutant in breakages()}
    for attack in attacks():
        assert attack.tests or attack.rows, attack.attack
        assert attack.before, attack.attack
        assert set(attack.rows) <= rows, attack.attack
        assert set(attack.breakages) <= broken, attack.attack
        for test in attack.tests:
            file, _, name = test.partition("::")
            assert name in functions(file), test


def test_there_are_as_many_as_were_reported() -> None:
    weights = [attack.weight for attack in attacks()]
    assert (weights.count("high"), weights.count("medium")) == (12, 14)
