"""What git itself does for a setup: fetches, with its progress where somebody sees it."""

import sys
from pathlib import Path
from unittest import mock

import pytest

from ascend_doctor.provision.git import Git
from ascend_doctor.provision.running import CommandError, Runner
from ascend_doctor.provision.sources import RepositorySource
from tests.provision.hostile_repository import git, make


def fetch(at: Path, cache: Path, runner: Runner) -> None:
    commit = git(at, "rev-parse", "main").decode()
    source = RepositorySource(url=f"file://{at}")
    Git(runner=runner).fetch(cache, source, commit, "main")
    assert Git(runner=runner).has(cache, commit)


def test_a_fetch_shows_git_s_progress_to_a_display_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    at = make(tmp_path / "repository")
    lines: list[str] = []
    fetch(at, tmp_path / "shown.git", Runner(progress=lines.append))
    assert any("objects: 100%" in line for line in lines), lines
    assert not any(end in line for line in lines for end in "\r\n")
    fetch(at, tmp_path / "quiet.git", Runner())
    assert capfd.readouterr() == ("", "")


def test_progress_hides_secrets_and_keeps_errors() -> None:
    lines: list[str] = []
    runner = Runner(progress=lines.append).hiding(["s3cret"])
    code = "import sys; print('at s3cret\\nfatal: s3cret', file=sys.stderr); sys.exit(3)"
    with pytest.raises(CommandError, match=r"fatal: \*\*\*"):
        runner.run([sys.executable, "-c", code], title="it", deadline=60)
    assert lines
    assert "s3cret" not in "".join(lines)


def test_a_command_that_does_not_end_is_ended_with_progress_too() -> None:
    runner = Runner(progress=lambda _: None)
    code = "import time; time.sleep(60)"
    with pytest.raises(CommandError, match="did not end within 1 s"):
        runner.run([sys.executable, "-c", code], title="it", deadline=1)


@pytest.mark.parametrize(
    ("output", "times", "shown"),
    [
        ("fatal: unable to access: Could not resolve host", 3, "--git-mirror URL_OR_DIR fetches"),
        ("fatal: repository not found", 1, "not found"),
        ("fatal: unable to access: The requested URL returned error: 403", 1, "403"),
    ],
)
def test_a_server_out_of_reach_is_asked_thrice_and_the_mirror_named(
    monkeypatch: pytest.MonkeyPatch, output: str, times: int, shown: str
) -> None:
    asked = mock.Mock(side_effect=CommandError("git ls-remote", output))
    runner = mock.Mock(run=asked)
    runner.hiding.return_value = runner
    monkeypatch.setattr("ascend_doctor.provision.git._WAITS", (0, 0))
    with pytest.raises(CommandError, match=shown):
        Git(runner=runner).refs(RepositorySource(url="https://example.com/x.git"))
    assert asked.call_count == times
