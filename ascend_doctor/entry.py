"""Where the command line begins: nothing of what is examined comes before the doctor's own modules.

PYTHONPATH, the current folder and a user's packages belong to the examined environment: a click.py
there would run as root in a prolog. ``python -I -m ascend_doctor`` also leaves out what Python runs
at its start (sitecustomize, .pth files).
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import site
import sys
import time

from ascend_doctor.exits import EXIT_BUG, EXIT_INTERRUPTED, EXIT_UNKNOWN, describe_exhaustion

_WITHOUT_DOCSTRINGS = 2  # python -OO, or PYTHONOPTIMIZE=2
# Facts are made once and stay: garbage collection among them is a tenth of a level 0.
_GARBAGE_THRESHOLD = 100_000


def main() -> None:
    """Run the command line and exit with its code, whatever ends it."""
    began = time.monotonic()
    if sys.flags.optimize >= _WITHOUT_DOCSTRINGS and not sys.flags.ignore_environment:
        _start_with_docstrings()
    # Registered first, called last. Finalizing the interpreter costs 18 ms.
    atexit.register(_leave)
    gc.set_threshold(_GARBAGE_THRESHOLD)
    sys.path[:] = own(sys.path, os.environ.get("PYTHONPATH"))
    try:
        _run(began)
    except SystemExit as end:
        _codes.append(end.code if isinstance(end.code, int) else 0)
        raise


def _run(began: float) -> None:
    try:
        from ascend_doctor.cli import main as run

        run(began)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last handler
        if why := describe_exhaustion(error):
            _say(f"nothing was checked: {why}")
            sys.exit(EXIT_UNKNOWN)
        import traceback

        _say(f"a bug in ascend-doctor\n{traceback.format_exc()}")
        sys.exit(EXIT_BUG)


def _start_with_docstrings() -> None:
    """Restart without PYTHONOPTIMIZE=2, as checks need docstrings; the examined one keeps it."""
    main_file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    os.execv(sys.executable, [sys.executable, "-E", main_file, *sys.argv[1:]])  # noqa: S606


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"ascend-doctor: {text}\n".encode(errors="replace"))


_codes: list[int] = []


def _leave() -> None:
    if _codes:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(_codes[-1])


def own(path: list[str], pythonpath: str | None) -> list[str]:
    """The entries of the interpreter that this is installed in, and its own folder."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    foreign = {os.getcwd() if _has_folder() else "", ""}
    # With -I or -E Python ignores it, and an equal entry is the interpreter's own.
    if pythonpath and not sys.flags.ignore_environment:
        foreign |= {os.path.abspath(entry) for entry in pythonpath.split(os.pathsep)}
        foreign |= set(pythonpath.split(os.pathsep))
    home = site.getusersitepackages()
    if home in path and not os.geteuid() and _owner(home):  # else it may never answer
        foreign.add(home)
    # A checkout run in place may itself be the current folder, or on PYTHONPATH.
    return [entry for entry in path if entry not in foreign or entry == here]


def _has_folder() -> bool:
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
