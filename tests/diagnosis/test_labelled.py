import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.diagnosis import labelled, labelled_cases
from tests.diagnosis.labelled import VARIABLE, main
from tests.diagnosis.labelled_cases import read_records
from tests.diagnosis.logs import catalog
from tests.programs import run_program

OOM = "NPU out of memory. Tried to allocate 2.00 GiB"
FAILING = f"""
- source: https://example.org/1
  root: npu-oom-torch
  guilty: [3]
  text: "[rank3]: RuntimeError: {OOM}"
- source: https://example.org/2
  root: unknown
  sha256: {"f" * 64}
"""
HEALTHY = """
- source: https://example.org/3
  root: none
  lines: ["{'loss': 0.3, 'epoch': 1.0}"]
"""


@pytest.mark.slow
@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no labelled logs")
def test_no_figure_of_the_labelled_logs_is_worse_than_recorded() -> None:
    run = run_program(
        [sys.executable, "-m", "tests.diagnosis.labelled"],
        check=False,
        timeout=600,
        cwd=Path(__file__).parents[2],
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_recorded_roots_are_in_the_catalogue() -> None:
    ids = {*catalog().recognized_failures, "unknown", "none"}
    labels = [record.label for record in read_records().values()]
    assert len(labels) > 2700
    assert [label for label in labels if not label.right & ids] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three labelled logs, with a table and floors of their own."""
    for name, text in {"first_sight/failing": FAILING, "threads/healthy": HEALTHY}.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir()
        path.write_text(text, "utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(labelled, "FLOORS", tmp_path / "floors.tsv")
    for function in (labelled_cases.read_records, labelled_cases.write_records):
        monkeypatch.setattr(function, "__defaults__", (tmp_path / "table.tsv",))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--processes", "1"])


def replace(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")


@pytest.mark.usefixtures("folder")
def test_figures_by_set() -> None:
    assert run("--record").exit_code == 0
    page = json.loads(run("--json").stdout)
    failing, healthy = page["sets"]
    assert (failing["cases"], failing["read"], failing["right"]) == (2, 1, 1)
    assert (failing["guilty_right"], failing["exit_1"], healthy["exit_0"]) == (1, 1, 1)
    assert [case["root"] for case in page["cases"]] == ["npu-oom-torch", "none"]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("root: npu-oom-torch", "root: unknown", "the label is not the recorded one"),
        ("guilty: [3]", "guilty: []", "a rank is accused wrongly"),
        ("Tried to allocate", "Tried to  allocate", "the text has no recorded digest"),
        ("source: https://example.org/2", "source: other", "the label is not the recorded one"),
        (f"RuntimeError: {OOM}", "{'loss': 0.3, 'epoch': 1.0}", "a failed run is called fine"),
        (OOM, "step 3 of 4", "set 1, failing: 0 right, not 2"),
    ],
)
def test_what_differs_from_the_record(folder: Path, before: str, after: str, problem: str) -> None:
    run("--record")
    replace(folder / "floors.tsv", "1\tfailing\t1", "1\tfailing\t2")
    replace(folder / "first_sight/failing.yaml", before, after)
    result = run("--wrong")
    assert result.exit_code == 1
    assert problem in result.stdout


def test_recording_again_excuses_no_known_case(folder: Path) -> None:
    run("--record")
    replace(folder / "first_sight/failing.yaml", "guilty: [3]", "guilty: []")
    result = run("--record")
    assert result.exit_code == 1
    assert "a rank is accused wrongly" in result.stdout


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("first_sight/failing.yaml", "- {source: x}", "missing required field `root`"),
        ("first_sight/failing.yaml", "- [", "failing.yaml: did not find"),
        ("first_sight/failing.yaml", "- {source: x, root: none}", "'x' has no text"),
        ("first_sight/other-failing.yaml", "[]", "does not begin with the number of a set"),
        (f"{'f' * 64}.json", "{}", "its digest is not its name"),
    ],
)
def test_a_bad_folder_is_one_line(folder: Path, name: str, text: str, reason: str) -> None:
    (folder / name).write_text(text, "utf-8")
    refused(reason)


def test_an_absent_folder_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    refused("no folder with first_sight/*.yaml and threads/*.yaml")
    monkeypatch.delenv(VARIABLE)
    refused(f"{VARIABLE} is not set")


def refused(reason: str) -> None:
    result = run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr
