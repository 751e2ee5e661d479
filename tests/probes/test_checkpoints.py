"""What ranks make of an action that fails on all of them, on some, or while others wait."""

import json
from pathlib import Path

import pytest

from tests.programs import on_cpu, run_program

PROBES = Path(__file__).parent.parent.parent / "probes"
PROGRAM = """
import datetime, json, os, sys
sys.path.insert(0, sys.argv[1])
import torch
import _checkpoints

torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = torch.distributed.get_rank()

def fail_everywhere():
    raise TypeError("of all")

def fail_alone():
    if rank == 0:
        raise TypeError("of the only writer")
    torch.distributed.barrier()

ends = []
for action, waits in ((lambda: None, True), (fail_everywhere, True), (fail_alone, True)):
    try:
        ends.append(_checkpoints.agree(action, waits=waits))
    except RuntimeError as error:
        ends.append(f"RuntimeError: {error}")
with open(f"{sys.argv[2]}/{rank}", "w") as file:
    json.dump(ends, file)
os._exit(0)
"""


@pytest.mark.slow
def test_who_failed_first_is_told_on_every_rank(examined_megatron: Path, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, "utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run_program(
        [examined_megatron, *launcher, script, PROBES, tmp_path],
        env=on_cpu(OMP_NUM_THREADS="1"),
    )
    for rank in ("0", "1"):
        assert json.loads((tmp_path / rank).read_text()) == [
            "",
            "TypeError: of all",
            "RuntimeError: TypeError: of the only writer",
        ]
