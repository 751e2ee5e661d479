"""Terminals of 40 and 80 columns: words stay whole, and what is to be pasted is on one line."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from ascend_doctor import language
from ascend_doctor.cli import run
from ascend_doctor.render.columns import width, wrap, wrap_list
from tests.diagnosis import faults
from tests.fleet.nodes import node, write
from tests.test_machines import folder_of

_PASTED = re.compile(
    r"^ {14}\S*(?:python|docker|ascend-doctor)\S* |^(Start here|从这里开始)|^ +--|=|^ +\d \w+P\d"
    r"|^ +`.+`\W*$|^ +(?:layout|布局) |^ +ascend-doctor setup"
)


def output(monkeypatch: pytest.MonkeyPatch, columns: int, *arguments: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    written = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(written, "utf-8", write_through=True)):
        run(list(arguments))
        return written.getvalue().decode().splitlines()


@pytest.mark.parametrize("lang", language.LANGUAGES)
@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_is_wider_than_the_terminal(
    columns: int, lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fault,) = (fault for fault in faults.load().pool if fault.id == "gpu-sleep-15-of-4")
    for name, text in faults.compose(fault).items():
        log = tmp_path / "logs" / name
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text)
    machine = str(folder_of("torch-npu-without-cann"))
    plan = ("plan", "--model", "qwen3-30b-a3b", "--npus", "16", "--framework", "megatron")
    for arguments in (
        ("check", "-l", "0", "-q", "--replay", machine),
        ("diagnose", str(tmp_path / "logs")),
        ("check", "--help"),
        plan,
    ):
        rows = output(monkeypatch, columns, "--lang", lang, *arguments)
        wide = [row for row in rows if width(row) > columns and not _PASTED.search(row)]
        assert wide == [], arguments


def test_what_to_type_first_is_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = str(folder_of("cann-not-sourced"))
    rows = output(monkeypatch, 40, "check", "-l", "0", "-q", "--replay", machine)
    (first,) = (row for row in rows if row.startswith("Start here: "))
    assert first.endswith("set_env.sh")


def test_all_of_the_first_line_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("[rank3]: RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\n")
    head = " ".join(output(monkeypatch, 40, "diagnose", str(log))[:2])
    assert "1 log · 1 line" in head
    assert "rank 3 seen" in head


def test_a_list_of_nodes_breaks_behind_commas(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert wrap_list("a[1,3],b", 5) == ["a[1,", "3],b"]
    assert wrap_list("long-name,b", 4) == ["long-name,", "b"]
    write(tmp_path, *(node(f"n{number}") for number in range(3)))
    rows = output(monkeypatch, 40, "merge", str(tmp_path))
    assert "3 nodes" in rows[0]
    assert rows[1].startswith("3 passed, ")


def test_a_number_keeps_its_unit() -> None:
    assert wrap("it ran in 1.5 s", 13) == ["it ran in", "1.5 s"]
    assert wrap("a copy of 60.9 GiB more", 14) == ["a copy of", "60.9 GiB more"]


@pytest.mark.parametrize("room", [28, 68, 108])
def test_words_of_a_command_stay_together(room: int) -> None:
    text = (
        "Where it is set, export USE_MCORE_GDN=0 or pip install -U peft; then ascend-doctor lint x"
    )
    rows = wrap(text, room)
    for command in ("export USE_MCORE_GDN=0", "pip install -U peft;", "ascend-doctor lint"):
        assert any(command in row for row in rows)
