"""Dumps as files: our own and msprobe's, whole and damaged."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.precision import msprobe
from ascend_doctor.precision.dumps import read_dump
from ascend_doctor.precision.records import TensorKind

# Written by mindstudio-probe 26.2.0 (task "statistics", level L0 and mix) in torch 2.13.0 on the
# CPU: a net of two blocks; in `bad` what is between the layers of a block is 1.5 times as large.
SAMPLES = Path(__file__).parent / "msprobe"
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
    for other, text in ((pair, "no rank 1"), (SAMPLES / "good", "msprobe"), (tmp_path, "no dump")):
        done = compare(doctor, single, other)
        assert done.returncode == 2, done
        assert text in done.stderr


@given(st.binary(max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank-0.jsonl").write_bytes(json.dumps(HEAD).encode() + b"\n" + content)
    (tmp_path / "step0").mkdir(exist_ok=True)
    (tmp_path / "step0" / "dump.json").write_bytes(content)
    with contextlib.suppress(DataError):
        read_dump(str(tmp_path))
    with contextlib.suppress(DataError):
        msprobe.read(str(tmp_path), ["step0"])


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["input_args", "output", "dtype", "shape", "Norm", "md5", "weight"]),
            inner,
            max_size=4,
        )
    ),
)
ENTRIES = st.sampled_from(
    [
        *("Module.a.Linear.forward.0", "Module.a.Linear.backward.0", "Functional.relu.0.forward"),
        *("Module.a.Linear.parameters_grad", "Module.a.Linear.parameters_grad.0", "else"),
    ]
)


@pytest.mark.slow
@given(st.dictionaries(ENTRIES, JSON, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_entry_of_msprobe_is_read_or_refused(tmp_path: Path, data: object) -> None:
    (tmp_path / "dump.json").write_text(json.dumps({"data": data}))
    with contextlib.suppress(DataError):
        msprobe.read(str(tmp_path), ["dump.json"])


# ---------------------------------------------------------------- msprobe


def test_msprobes_dumps_are_compared(doctor: Callable[..., Any]) -> None:
    done = compare(doctor, SAMPLES / "good", SAMPLES / "good")
    assert (done.returncode, done.stdout) == (0, "")
    done = compare(doctor, SAMPLES / "good", SAMPLES / "bad")
    assert done.returncode == 1
    assert "✗ layers.0: A and B part here" in done.stdout
    assert "input 0 of layers.0.fc2" in done.stdout


def test_what_msprobe_writes_is_read_whole() -> None:
    (rank,) = read_dump(str(SAMPLES / "good")).ranks.values()
    kinds = [record.kind for record in rank.records]
    assert kinds.count(TensorKind.OUTPUT) == 8
    assert kinds.count(TensorKind.WEIGHT) == 11
    assert kinds.count(TensorKind.WEIGHT_GRADIENT) == 11
    names = {record.name for record in rank.records if record.kind is TensorKind.WEIGHT_GRADIENT}
    assert "layers.0.fc1.weight" in names
    (rank,) = read_dump(str(SAMPLES / "mix")).ranks.values()
    assert "Torch.relu" in {record.name for record in rank.records}


def test_ranks_and_steps_of_msprobe(tmp_path: Path) -> None:
    source = SAMPLES / "good/step0/proc1/dump.json"
    for step in (0, 1, 10):
        for rank in (0, 1):
            folder = tmp_path / f"step{step}" / f"rank{rank}"
            folder.mkdir(parents=True)
            shutil.copy(source, folder)
    dump = read_dump(str(tmp_path))
    assert list(dump.ranks) == ["rank 0", "rank 1"]
    assert sorted({record.step for record in dump.ranks["rank 1"].records}) == [0, 1, 10]


@pytest.mark.parametrize(
    ("content", "text"),
    [("{", "dump.json"), ("[]", "`data`"), ('{"data": {"Module.a.B.forward.0": []}}', "data.Mod")],
)
def test_a_damaged_dump_of_msprobe_is_refused(tmp_path: Path, content: str, text: str) -> None:
    (tmp_path / "dump.json").write_text(content)
    with pytest.raises(DataError, match=text):
        read_dump(str(tmp_path))
