from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.checks import all_checks
from ascend_doctor.errors import Unknown
from ascend_doctor.facts import SCHEMA, SECTIONS, Snapshot, require_known
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.render.formats import text as text_format
from ascend_doctor.report import assemble
from tests.checks.machine import healthy

PLAIN: Any = msgspec.to_builtins(healthy())
CHECKS = all_checks()
CATALOG = Catalog()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, str):
        return [path]
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list | tuple):
        return [leaf for n, inner in enumerate(value) for leaf in leaves(inner, (*path, n))]
    return []


def replace(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    first, *rest = path
    if isinstance(value, dict):
        return {**value, first: replace(value[first], tuple(rest), text)}
    return [
        replace(inner, tuple(rest), text) if n == first else inner for n, inner in enumerate(value)
    ]


PLACES = leaves({name: PLAIN[name] for name in SECTIONS if PLAIN[name] is not None})
TEXTS = st.text() | st.sampled_from(["\x1b[2J[red]\n", "8.5.0", "-1", "0" * 400, "../..", "a=b"])


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A healthy machine with sections knocked out and texts replaced by anything."""
    plain = PLAIN
    for path in draw(st.lists(st.sampled_from(PLACES), max_size=6)):
        plain = replace(plain, path, draw(TEXTS))
    gone = draw(st.sets(st.sampled_from(sorted(SECTIONS)), max_size=4))
    return msgspec.convert({**plain, **dict.fromkeys(gone)}, Snapshot)


@pytest.mark.slow
@given(snapshots())
def test_snapshots_round_trip(facts: Snapshot) -> None:
    again = msgspec.json.decode(msgspec.json.encode(facts), type=Snapshot)
    assert again == facts
    assert again.schema == SCHEMA


@pytest.mark.slow
@given(snapshots(), st.sampled_from(["npu", "cuda", "cpu"]), st.none() | st.integers(1, 64))
def test_any_snapshot_is_judged_and_shown(facts: Snapshot, device: str, nproc: int | None) -> None:
    case = Case(facts=facts, catalog=CATALOG, device=device, nproc=nproc)
    findings = judge(case, CHECKS)
    assert {finding.check for finding in findings} == {check.id for check in CHECKS}
    assert not [finding for finding in findings if "the check itself failed" in finding.title]
    report = assemble(case, CHECKS, levels=(), fail_on=Level.ERROR, seconds=0.0)
    text = text_format.render(report, verbose=True)
    assert not [character for character in text if ord(character) < 32 and character != "\n"]


def test_what_is_not_known_says_what_it_was() -> None:
    assert require_known("24.1", "the driver's version") == "24.1"
    with pytest.raises(Unknown, match="could not tell the driver's version"):
        require_known(None, "the driver's version")
