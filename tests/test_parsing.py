from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import json_of, read_json, read_yaml, yaml_of

ALIASES = "\n".join(
    ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))]
)
MERGES = "\n".join(
    [
        "a0: &a0 {x: 1}",
        *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)),
    ]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested|nesting"),  # libyaml's own limit, since 0.2.6
        ("{a: " * 100_000, "nested"),
        ("- " * 100_000 + "x", "nested"),
        ("? " * 100_000 + "x", "nested"),
        ("\n".join(" " * n + "a:" for n in range(2_000)), "nested"),
        (ALIASES, "aliases"),
        (MERGES, "aliases"),
        ("a: &a [*a]", "contains itself"),
        ("a: 1" + ":1" * 1_000_000, "a number of"),
        ("a: " + "1" * 100_000, "a number of"),
        ("a: *nowhere", "undefined alias"),
        ("a: [", "x.yaml"),
        ("a: !!python/object/apply:os.system [id]", "constructor"),
        ("a\0b", "x.yaml"),
    ],
    ids=lambda text: text[:12],
)
def test_hostile_yaml_is_one_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        yaml_of(text, "x.yaml")
    assert str(refused.value).startswith("x.yaml: ")
    assert len(str(refused.value).splitlines()) == 1


def test_healthy_yaml_is_read_with_its_aliases_and_merges() -> None:
    text = "a: &a {x: 1, y: 0o17, z: 12:30}\nb: {<<: *a, x: 2}\nc: [*a, *a]\n"
    assert yaml_of(text, "x")["b"]["x"] == 2
    assert yaml_of("[" * 99 + "]" * 99, "x")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b'{"a": "\xff"}', "damaged"),
        (b"", "damaged"),
        (b'{"a": 1', "damaged"),
        (b"\xff\xfe[\0]\0", "damaged"),
    ],
)
def test_hostile_json_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        json_of(data, "x.json")


BROKEN = [
    (json_of, '{"a": 1,\n "\u00e9": }\n', "invalid character in line 2, column 7"),
    (json_of, '{"a": 1,\n "b"', "the text breaks off in line 2, column 5"),
    (json_of, "[1]\n[2]", "trailing characters in line 2, column 1"),
    (yaml_of, "a: b\nc: d: e\n", "mapping values are not allowed in this context in line 2, col"),
    (yaml_of, "\u00e9:\n  \0", "control characters are not allowed in line 2, column 3"),
    (yaml_of, "a:\n  - &b [*b]", "*b contains itself in line 2, column 9"),
]


@pytest.mark.parametrize(("read", "text", "location"), BROKEN, ids=[row[2] for row in BROKEN])
def test_an_error_names_the_file_and_the_place(
    read: Callable[[str, str], object], text: str, location: str
) -> None:
    with pytest.raises(DataError, match=r"^a/x\.txt: ") as refused:
        read(text, "a/x.txt")
    assert location in str(refused.value)


@pytest.mark.slow
def test_files_that_are_no_text_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a: \xff")
    with pytest.raises(DataError, match=r"no UTF-8 text \(byte 3\)"):
        read_yaml(path)
    with pytest.raises(DataError, match="damaged"):
        read_json(path)
    with path.open("wb") as file:
        file.truncate(300 << 20)
    for read in (read_yaml, read_json):
        with pytest.raises(DataError, match="larger than"):
            read(path)
