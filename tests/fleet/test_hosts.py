import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.hostlist import compress, expand, parse_hosts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\n", ("a", "b")),
        ("a slots=8\nb:4 # gone\n\n# c\na\n", ("a", "b")),
        ("node[08-11],x1", ("node08", "node09", "node10", "node11", "x1")),
        ("r[1-2]n[1,3]", ("r1n1", "r1n3", "r2n1", "r2n3")),
    ],
)
def test_lists_are_read(text: str, expected: tuple[str, ...]) -> None:
    assert parse_hosts(text, name="hosts") == expected


@pytest.mark.parametrize("text", ["", "# all gone", "n[1-", "n[a-b]", "n[1-9999999]"])
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(DataError, match="hosts"):
        parse_hosts(text, name="hosts")


def test_names_are_compressed_as_slurm_writes_them() -> None:
    names = ("node001", "node002", "node003", "node007", "gpu", "n5")
    assert compress(names) == "gpu,node[001-003,007],n5"


@pytest.mark.slow
@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,4}(?:-ib)?", fullmatch=True), unique=True))
def test_nothing_is_lost_by_compressing(names: list[str]) -> None:
    text = compress(names)
    if names:
        assert set(parse_hosts(text, name="x")) == set(names)


@pytest.mark.slow
@given(st.text(max_size=40))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    try:
        parse_hosts(text, name="x")
    except DataError:
        return
    list(expand("n[1-2]"))
