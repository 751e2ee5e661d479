from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.acceptance import needs

TESTS = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the files whose needs are absent, with the reason."""
    files: defaultdict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.is_relative_to(TESTS / "acceptance"):
            files[item.path].append(item)
    for path, rows in files.items():
        for reason in needs.absences(str(path.relative_to(TESTS))):
            for item in rows:
                item.add_marker(pytest.mark.skip(reason=reason))
