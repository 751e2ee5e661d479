from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.checks.python.probes.known_warnings import find_known, fold_known, known_warnings
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge, list_registered
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.probing.warned import COLUMNS, DISTINCT, Warned
from tests.checks.levels import remedy_of
from tests.present import present

ADAM = (
    "UserWarning: Transformer Engine and Apex are not installed. Falling back to Torch optimizers."
)

KNOWN = Catalog().known_warnings
SEEN = {row.id: row.example for row in KNOWN}


def judge_warnings(through: str, warnings: dict[str, int]) -> Finding:
    ranks = (ProbeResult(ok=True, values={"through": through}, warnings=warnings),)
    facts = Snapshot(probes=(ProbeRun(probe="smoke-train", ranks=ranks),))
    (check,) = [check for check in list_registered() if check.run is known_warnings]
    (finding,) = judge(Case(facts=facts, catalog=Catalog()), [check])
    return finding


def test_every_known_warning_has_been_seen() -> None:
    assert len(KNOWN) == len(SEEN) == 13
    for identity, line in SEEN.items():
        warning = present(find_known(line))
        assert warning.id == identity


def test_known_warnings_are_counted_and_strange_ones_listed() -> None:
    finding = judge_warnings(
        "nothing", {SEEN["multihot"]: 4, ADAM: 2, "UserWarning: the sky falls": 1}
    )
    assert finding.level is Level.OK
    assert finding.observed == "multihot 4x, torch-optimizers 2x"
    assert finding.because == "Not known:\nUserWarning: the sky falls (1x)"


def test_the_same_warning_under_mindspeed_is_a_symptom() -> None:
    finding = judge_warnings("mindspeed.megatron_adaptor", {ADAM: 1, SEEN["multihot"]: 1})
    assert finding.level is Level.WARNING
    assert "before anything of megatron" in remedy_of(finding).summary
    assert judge_warnings("mindspeed.megatron_adaptor", {SEEN["multihot"]: 1}).level is Level.OK


def test_folding_keeps_all_else_and_symptoms() -> None:
    lines = ["before", SEEN["multihot"], ADAM, SEEN["memory-pool"], "after"]
    assert fold_known(lines) == ["before", ADAM, "after", "(2 known harmless warnings)"]
    assert fold_known(["a"]) == ["a"]


def test_lines_that_warn_are_counted_without_their_place() -> None:
    warned = Warned()
    for path in (b"/a/b.py:10", b"/c d/e.py:2"):
        warned.feed(path + b": UserWarning: odd\n  warnings.warn(\nplain line\n")
    warned.feed(b"it is deprec")
    assert warned.counts == {"UserWarning: odd": 2}
    warned.feed(b"ated\n")
    assert warned.counts == {"UserWarning: odd": 2, "it is deprecated": 1}


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_what_is_kept_of_warnings_is_bounded(pieces: list[bytes]) -> None:
    warned = Warned()
    for number in range(2 * DISTINCT):
        warned.feed(b"warning %d\n" % number)
    for piece in pieces:
        warned.feed(piece)
    assert len(warned.counts) <= DISTINCT
    assert all(len(line) <= COLUMNS for line in warned.counts)
