"""Every attack that succeeded once has tests that exist, and what it did before."""

from __future__ import annotations

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
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.slow
def test_every_attack_has_tests_that_exist_and_was_seen_before() -> None:
    rows, broken = {one.name for one in ROWS}, {one.id for one in breakages()}
    for one in attacks():
        assert one.tests or one.rows, one.attack
        assert one.before, one.attack
        assert set(one.rows) <= rows, one.attack
        assert set(one.breakages) <= broken, one.attack
        for test in one.tests:
            file, _, name = test.partition("::")
            assert name in functions(file), test


def test_there_are_as_many_as_were_reported() -> None:
    weights = [one.weight for one in attacks()]
    assert (weights.count("high"), weights.count("medium")) == (12, 14)
