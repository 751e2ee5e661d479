"""MindSpeed-RL's own configurations, as they are and with seeded mistakes."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.linting.rl_seeding import (
    configurations,
    files,
    is_found,
    mistakes,
    reports,
)


def test_what_is_shipped_has_no_mistakes(tmp_path: Path) -> None:
    """All 17 were labelled as free of mistakes before they were judged."""
    contents = files()
    paths = configurations(contents)
    assert len(paths) == 17
    for path in paths:
        assert [(one.title, one.location) for one in reports(contents, path, tmp_path)] == []


def test_seeded_mistakes_are_found(tmp_path: Path) -> None:
    contents = files()
    found = [is_found(one, contents, tmp_path) for one in mistakes(contents, 20261303, 40)]
    assert sum(found) >= 36
