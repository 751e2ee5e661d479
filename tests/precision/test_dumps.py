"""Dumps as files, whole and damaged."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.precision.dumps import read_dump

HEAD: dict[str, Any] = {"format": "ascend-doctor-dump", "schema": 1, "rank": 0, "world_size": 1}
HEAD |= {"device": "cpu", "torch": "2.13.0", "simulated": False}
ROW: dict[str, Any] = {"step": 0, "kind": "output", "name": "Model", "shape": [1]}
ROW |= {"dtype": "float32", "norm": 1.0, "projections": [1.0]}
END = {"end": True, "records": 1, "steps": 1}


def write(folder: Path, *rows: object, name: str = "rank-0.jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    (folder / name).write_text(text)
    return folder


def compare(run: Callable[..., Any], *arguments: object) -> Any:
    return run("compare", *map(str, arguments))


def test_equal_dumps_are_silent(tmp_path: Path, doctor: Callable[..., Any]) -> None:
    folder = write(tmp_path / "a", HEAD, ROW, END)
    done = compare(doctor, folder, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_difference_is_shown(tmp_path: Path, doctor: Callable[..., Any]) -> None:
    good = write(tmp_path / "a", HEAD, ROW, END)
    other = {**ROW, "projections": [1.5]}
    bad = write(tmp_path / "b", HEAD, other, END)
    done = compare(doctor, good, bad)
    assert done.returncode == 1
    assert "✗ Model: A and B part here" in done.stdout
    done = compare(doctor, "--format", "json", good, bad)
    (parting,) = json.loads(done.stdout)["partings"]
    assert done.returncode == 1
    assert (parting["rank"], parting["module"], parting["cause"]) == ("rank 0", "Model", "values")
    done = compare(doctor, "--tolerance", "fp32=0.9", good, bad)
    assert done.returncode == 0


def test_no_name_reaches_the_terminal_raw(tmp_path: Path, doctor: Callable[..., Any]) -> None:
    good = write(tmp_path / "a", HEAD, {**ROW, "name": "\x1b[31mred\nnext"}, END)
    bad = write(tmp_path / "b", HEAD, {**ROW, "name": "\x1b[31mred\nnext"}, END)
    (bad / "rank-0.jsonl").write_text((bad / "rank-0.jsonl").read_text().replace("[1.0]", "[9]"))
    done = compare(doctor, good, bad)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "\nnext" not in done.stdout


DAMAGES: dict[str, tuple[tuple[object, ...], str]] = {
    "empty": ((), "empty"),
    "no-head": ((ROW, END), "rank-0.jsonl:1: "),
    "other-schema": (({**HEAD, "schema": 2}, ROW, END), "schema 2"),
    "cut-off": ((HEAD, ROW), "cut off"),
    "cut-within": ((HEAD, '{"step":0,"ki'), "cut off"),
    "lost-line": ((HEAD, ROW, {**END, "records": 2}), "1 records where 2"),
    "no-json": ((HEAD, "{]", END), "rank-0.jsonl:2: "),
    "wrong-type": ((HEAD, {**ROW, "shape": "x"}, END), "rank-0.jsonl:2: "),
    "unknown-kind": ((HEAD, {**ROW, "kind": "x"}, END), "rank-0.jsonl:2: "),
    "nothing": ((HEAD, {**END, "records": 0}), "nothing was recorded"),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_dump_is_refused_in_a_line(
    tmp_path: Path, doctor: Callable[..., Any], damage: str
) -> None:
    rows, text = DAMAGES[damage]
    good = write(tmp_path / "a", HEAD, ROW, END)
    bad = write(tmp_path / "b", *rows)
    for pair in ((good, bad), (bad, good)):
        done = compare(doctor, *pair)
        assert done.returncode == 2, done
        assert done.stdout == ""
        assert text in done.stderr
        assert str(bad) in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_dumps_that_do_not_belong_together_are_refused(
    tmp_path: Path, doctor: Callable[..., Any]
) -> None:
    single = write(tmp_path / "a", HEAD, ROW, END)
    pair = write(tmp_path / "b", HEAD, ROW, END)
    write(pair, {**HEAD, "rank": 1}, ROW, END, name="rank-1.jsonl")
    for other, text in ((pair, "no rank 1"), (tmp_path, "no dump")):
        done = compare(doctor, single, other)
        assert done.returncode == 2, done
        assert text in done.stderr


@given(st.binary(max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank-0.jsonl").write_bytes(json.dumps(HEAD).encode() + b"\n" + content)
    with contextlib.suppress(DataError):
        read_dump(str(tmp_path))
