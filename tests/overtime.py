"""Ends what a test waits for too long.

What the test started is killed, it goes on and fails; a worker that does not ends.
Its stacks are in the failure's captured stderr.
"""

import contextlib
import faulthandler
import os
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

MAX_SECONDS = 900.0


class Overtime:
    """A plugin of pytest; ``folder``: in it lie the homes of all that tests start."""

    def __init__(self, folder: Path, max_seconds: float = MAX_SECONDS) -> None:
        self._folder = str(folder)
        self._max_seconds = max_seconds
        self._since = time.time()
        threading.Thread(target=self._watch, daemon=True).start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._since = time.time()

    def pytest_sessionfinish(self) -> None:
        self._since = float("inf")

    def _watch(self) -> None:
        while True:
            time.sleep(min(10.0, self._max_seconds))
            late = time.time() - self._since - self._max_seconds
            if late > self._max_seconds:
                os._exit(1)
            if late > 0:
                faulthandler.dump_traceback(sys.__stderr__ or sys.stderr)
                self._kill_started()

    def _kill_started(self) -> None:
        descendants = {child.pid for child in psutil.Process().children(recursive=True)}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.create_time() >= self._since - 1 and (
                    process.pid in descendants
                    or process.environ().get("HOME", "").startswith(self._folder)
                ):
                    process.kill()
