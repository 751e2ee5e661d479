"""What torch's launcher starts at true size, whoever called it: torchrun, accelerate or a CLI."""

import json
import os
import sys
from typing import Any

from .plans import FOLDER

_SETTINGS = "ASCEND_DOCTOR_SHRINK"  # of shrinking/programs.py, whose torchrun starts the ranks


def take_over() -> None:
    if FOLDER not in os.environ or _SETTINGS not in os.environ or "RANK" in os.environ:
        return
    from torch.distributed.launcher import api

    sys.modules.pop("torch.distributed.run", None)  # `python -m` would warn of it
    original = api.launch_agent

    def launch(config: Any, entrypoint: Any, args: list[Any], **others: Any) -> Any:
        if entrypoint != os.getenv("PYTHON_EXEC", sys.executable):
            return original(config, entrypoint, args, **others)
        program = os.path.join(json.loads(os.environ[_SETTINGS])["folder"], "torchrun")
        places = [f"--nnodes={config.max_nodes}", f"--nproc-per-node={config.nproc_per_node}"]
        words = [word for word in args if word != "-u" and not word.startswith("--local-rank=$")]
        sys.stdout.flush()
        return os.execv(program, [program, *places, *words])  # noqa: S606

    api.launch_agent = launch
