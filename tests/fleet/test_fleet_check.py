"""What ``fleet check`` refuses before it starts anything."""

from pathlib import Path

import pytest

from ascend_doctor.cli import run


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("check", "--slurm", "--nodes", "2", "--doctor", "'"), "--doctor"),
        (("check",), "give --ray or --slurm"),
        (("check", "--ray", "--slurm"), "give --ray or --slurm"),
        (("check", "--ray", "auto", "--", "--partition", "x"), "--slurm"),
        (("check", "--slurm", "--nodes", "2", "--expect", "pyproject.toml"), "exclude each other"),
        (("check", "--slurm", "--reports", "pyproject.toml"), "--reports pyproject.toml"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert run(["fleet", *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_old_reports_are_not_taken_for_new_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node1.json").write_text("{}")
    assert run(["fleet", "check", "--slurm", "--nodes", "1", "--reports", str(tmp_path)]) == 2
    assert "holds node1.json; give an empty folder" in capsys.readouterr().err
