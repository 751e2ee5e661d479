"""Code that runs in an interpreter with a real megatron.core."""

import json
from pathlib import Path
from typing import Any

from tests.programs import on_cpu, run_program

HERE = Path(__file__).parent


def run(
    python: Path, script: Path, cases: object, *launcher: str, arguments: tuple[str, ...] = ()
) -> Any:
    done = run_program(
        [python, *launcher, script, *arguments],
        input=json.dumps(cases),
        check=False,
        timeout=900,
        env=on_cpu(OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
