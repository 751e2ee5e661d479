"""What the doctor loads into processes of others when their interpreter starts."""

import os

# First on PYTHONPATH, or copied there; loads every hook of ours on the path.
STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
STARTUP_FILE = os.path.join(STARTUP, "sitecustomize.py")


def prepend_path(entry: str, rest: str | None) -> str:
    """A folder variable with ``entry`` before the others, if any."""
    return f"{entry}:{rest}" if rest else entry
