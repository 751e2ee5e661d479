from pathlib import Path

import pytest

from tests.acceptance import needs

TESTS = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    manifest = needs.load()
    files = {item.path for item in items if item.path.is_relative_to(TESTS / "acceptance")}
    reasons = {path: manifest.absences(str(path.relative_to(TESTS))) for path in files}
    for item in items:
        for reason in reasons.get(item.path, ()):
            item.add_marker(pytest.mark.skip(reason=reason))
