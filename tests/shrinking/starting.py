"""Starts a command where launchers print their arguments and run nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ascend_doctor.shrinking.programs import PROGRAMS, write_programs


def start(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command where the launchers print their words, on 8 NPUs."""
    real = folder / "real"
    real.mkdir()
    for name in PROGRAMS:
        (real / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (real / name).chmod(0o755)
    scratch = folder / "scratch"
    scratch.mkdir()
    path = f"{real}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, **write_programs(scratch, 8, str(real / "python"), path)},
    )
