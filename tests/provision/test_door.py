import re
from pathlib import Path

import ascend_doctor

PACKAGE = Path(ascend_doctor.__file__).parent
REQUEST = re.compile(r"\b(SetupOptions|Plan)\b|\*\*request\b")
MODULES, LINES = 12, 150


def test_a_request_visits_few_modules() -> None:
    """From the command line to the lock; callees get a path, a commit or a wheel."""
    visited = {path for path in PACKAGE.rglob("*.py") if REQUEST.search(path.read_text("utf-8"))}
    visited.add(PACKAGE / "commands" / "setup.py")
    names = sorted(str(path.relative_to(PACKAGE)) for path in visited)
    assert "provision/build.py" in names
    assert len(names) <= MODULES, names


def test_the_command_fits_a_screen_or_two() -> None:
    lines = (PACKAGE / "commands" / "setup.py").read_text("utf-8").splitlines()
    assert len(lines) < LINES
