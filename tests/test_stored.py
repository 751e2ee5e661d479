"""What earlier commits of the same schema wrote is read: reports, snapshots and locks."""

import json
from pathlib import Path

import pytest

from ascend_doctor import cli
from ascend_doctor.provision import lock as locks
from tests.machines.compose import build

STORED = Path(__file__).parent / "stored"
BY = sorted(path.name for path in STORED.iterdir() if path.is_dir())
FILES = sorted(STORED.glob("*/*.json"))


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.fixture(params=["+00:00", "Z"], ids=["offset", "Z"])
def zone(request: pytest.FixtureRequest) -> str:
    """How a timestamp ends; RFC 3339 allows both."""
    return str(request.param)


def copied(file: Path, folder: Path, zone: str) -> str:
    text = file.read_text("utf-8")
    assert "+00:00" in text
    copy = folder / file.name
    copy.write_text(text.replace("+00:00", zone), "utf-8")
    return str(copy)


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_snapshot_is_judged(
    file: Path, zone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["judge", copied(file, tmp_path, zone), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    errors = {row["check"] for row in report["findings"] if row["level"] == "error"}
    assert ("torch-npu-base-mismatch" in errors) is (file.stem == "snapshot")
    assert report["taken_at"].endswith(zone)


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_snapshot_is_compared(
    file: Path, zone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(STORED / BY[0] / "snapshot.json")
    assert cli.run(["diff", copied(file, tmp_path, zone), other]) in {0, 1}
    assert "cannot" not in capsys.readouterr().err


def test_reports_are_merged(zone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, commit in enumerate(BY):
        text = (STORED / commit / "report.json").read_text("utf-8").replace("+00:00", zone)
        row = json.loads(text) | {"host": f"node-{number}"}
        (tmp_path / f"{number}.json").write_text(json.dumps(row), "utf-8")
    assert cli.run(["merge", str(tmp_path), "--format", "json"]) == 1
    fleet = json.loads(capsys.readouterr().out)["fleet"]
    assert len(fleet["failing"]) == len(BY)
    assert not fleet["unreadable"]


@pytest.mark.parametrize("commit", [by for by in BY if (STORED / by / locks.FILE).exists()])
def test_a_lock_is_read(
    commit: str, zone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = copied(STORED / commit / locks.FILE, tmp_path, zone)
    assert locks.read(Path(lock)).wish["megatron"] == "0.15.3"
    replay = ["--replay", str(build("healthy-a2", tmp_path / "machine"))]
    only = ["--only", "stack-lock", "--format", "json"]
    assert cli.run(["check", "-l", "0", *replay, *only, "--lock", lock]) == 3
    section = json.loads(capsys.readouterr().out)["snapshot"]["stack_lock"]
    assert [row["name"] for row in section["checkouts"]] == ["megatron-lm", "mindspeed"]
