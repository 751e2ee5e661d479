"""Programs that tests start, with what they print, and modules that they load from a path."""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.present import present


def run_program(
    command: Sequence[str | Path], *, check: bool = True, timeout: float = 300, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=check, capture_output=True, text=True, timeout=timeout, **options
    )


def run_bytes(
    command: Sequence[str | Path], *, check: bool = True, timeout: float = 300, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, check=check, capture_output=True, timeout=timeout, **options)


def on_cpu(**more: str) -> dict[str, str]:
    """The environment in which torch does not load torch_npu by itself."""
    return {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **more}


def free_ports(count: int = 1) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


def until(true: Callable[[], bool], seconds: float = 300) -> bool:
    """Whether it becomes true in time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if true():
            return True
        time.sleep(0.1)
    return False


def load_module(path: Path, name: str) -> ModuleType:
    spec = present(importlib.util.spec_from_file_location(name, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    present(spec.loader).exec_module(module)
    return module
