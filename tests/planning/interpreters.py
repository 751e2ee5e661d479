"""Interpreters with a real megatron.core, and code that runs in them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def interpreters() -> list[str]:
    """Those of ASCEND_DOCTOR_TEST_MEGATRON (joined as in PATH) and ASCEND_DOCTOR_TEST_PYTHON."""
    named = os.environ.get("ASCEND_DOCTOR_TEST_MEGATRON", "").split(os.pathsep)
    named.append(os.environ.get("ASCEND_DOCTOR_TEST_PYTHON", ""))
    return list(dict.fromkeys(one for one in named if one))


def run(
    python: str, script: str, given: object, *launcher: str, arguments: tuple[str, ...] = ()
) -> Any:
    """What the script beside this file answers; skips where there is no megatron.core."""
    done = subprocess.run(
        [python, *launcher, str(HERE / script), *arguments],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"},
    )
    if "No module named 'megatron" in done.stderr:
        pytest.skip(f"{python} has no megatron.core")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


requires_megatron = pytest.mark.skipif(
    not interpreters(),
    reason="neither ASCEND_DOCTOR_TEST_MEGATRON nor ASCEND_DOCTOR_TEST_PYTHON names one",
)
each_megatron = pytest.mark.parametrize(
    "python", interpreters() or [""], ids=lambda one: Path(one).parent.parent.name or "none"
)
