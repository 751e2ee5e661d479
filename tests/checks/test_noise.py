from ascend_doctor.checks.probes.known_warnings import find_known, fold_known
from ascend_doctor.matrix.catalog import Catalog
from tests.present import present

ADAM = (
    "UserWarning: Transformer Engine and Apex are not installed. Falling back to Torch optimizers."
)

KNOWN = Catalog().known_warnings
SEEN = {row.id: row.example for row in KNOWN}


def test_every_known_warning_has_been_seen() -> None:
    assert len(KNOWN) == len(SEEN) == 11
    for identity, line in SEEN.items():
        warning = present(find_known(line))
        assert warning.id == identity


def test_folding_keeps_all_else() -> None:
    lines = ["before", SEEN["multihot"], ADAM, SEEN["memory-pool"], "after"]
    assert fold_known(lines) == ["before", ADAM, "after", "(2 known harmless warnings)"]
    assert fold_known(["a"]) == ["a"]
