"""Where the command line begins: nothing of what is examined comes before the doctor's own modules.

PYTHONPATH, the current folder and the packages in a user's home are part of the examined
environment. A click.py there would run in place of the doctor's, as root in a prolog. What Python
itself runs at its start (sitecustomize, .pth files) is earlier; ``python -I -m ascend_doctor``
leaves that out as well.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import site
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    # What is registered first is called last. Taking the interpreter apart costs 18 ms.
    atexit.register(_leave)
    # Facts are made once and kept: looking for garbage among them is a tenth of a level 0.
    gc.disable()
    sys.path[:] = own(sys.path, os.environ.get("PYTHONPATH"))
    from ascend_doctor.cli import main as run  # noqa: PLC0415 - by the path above

    try:
        run()
    except SystemExit as end:
        _codes.append(end.code if isinstance(end.code, int) else 0)
        raise


_codes: list[int] = []


def _leave() -> None:
    """End the process with the code of the command line, where that has ended."""
    if _codes:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(_codes[-1])


def own(path: list[str], pythonpath: str | None) -> list[str]:
    """The entries of the interpreter that this is installed in, and where it lies itself."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    foreign = {os.getcwd() if _has_folder() else "", ""}
    # With -I or -E Python has not put them on the path, and an equal entry is the interpreter's
    # own.
    if pythonpath and not sys.flags.ignore_environment:
        foreign |= {os.path.abspath(entry) for entry in pythonpath.split(os.pathsep)}
        foreign |= set(pythonpath.split(os.pathsep))
    home = site.getusersitepackages()
    if home in path and not os.geteuid() and _owner(home):  # else it may never answer
        foreign.add(home)
    # A checkout that is run in place may be the current folder, or on PYTHONPATH, itself.
    return [entry for entry in path if entry not in foreign or entry == here]


def _has_folder() -> bool:
    """The current folder may be gone."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _owner(path: str) -> int:
    try:
        return os.stat(path).st_uid
    except OSError:
        return 0
