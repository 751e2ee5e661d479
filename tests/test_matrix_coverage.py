"""Releases that docs/records/matrix.md leaves out have no row."""

from pathlib import Path

from ascend_doctor.matrix.catalog import Catalog

CATALOG = Catalog()
PAGE = Path(__file__).parent.parent / "docs" / "records" / "matrix.md"


def list_left_out() -> dict[tuple[str, str], str]:
    text = PAGE.read_text("utf-8").partition("## Releases left out")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {(name, version): why for name, version, why in rows[2:]}


def test_what_is_left_out_is_not_there() -> None:
    for name, version in list_left_out():
        assert CATALOG.component(name).release(version) is None, f"{name} {version} is there"
