import json
from pathlib import Path

import pytest

from tests.programs import on_cpu, run_program

PROBES = Path(__file__).parent.parent.parent / "probes"

# vllm-ascend's two classes, as far as the probe knows them. Without a library, a communicator
# takes every call and does nothing.
PROGRAM = f"""
import json, sys, types
from datetime import timedelta
sys.path.insert(0, {str(PROBES)!r})
import torch
import weight_sync

DISABLED = sys.argv[1] == "disabled"
STALE = sys.argv[1] == "stale"

class StatelessProcessGroup:
    @staticmethod
    def create(host, port, rank, world_size, store_timeout):
        return StatelessProcessGroup()
    def broadcast_obj(self, value, src):
        return {{"k": 1}}

class PyHcclCommunicator:
    def __init__(self, group, device):
        self.disabled = DISABLED
        self.sent = {{}}
    def all_reduce(self, tensor):
        return None if self.disabled else torch.full_like(tensor, 3.0)
    def broadcast(self, tensor, src):
        if self.disabled:
            return
        self.sent[tensor.dtype] = self.sent.get(tensor.dtype, 0) + (not STALE)
        number = max(self.sent[tensor.dtype], 1)
        tensor.copy_(torch.arange(tensor.numel()).remainder(251) + number)

def module(name, **names):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)

for name in ("vllm", "vllm.distributed", "vllm_ascend", "vllm_ascend.distributed",
             "vllm_ascend.distributed.device_communicators"):
    module(name)
module("vllm.distributed.utils", StatelessProcessGroup=StatelessProcessGroup)
module("vllm_ascend.distributed.device_communicators.pyhccl", PyHcclCommunicator=PyHcclCommunicator)

class Probe:
    rank, world_size, device, stage_name = 1, 2, "cpu", "send"
    wrong = []
    def torch_device(self):
        return "cpu"
    def tampers(self, stage):
        return False
    def synchronise(self, torch):
        pass
    def expect(self, what, got, wanted):
        if got != wanted:
            self.wrong.append(what)

probe = Probe()
side = weight_sync.Vllm(probe, None, ("127.0.0.1", 1, None), timedelta(seconds=5))
weight_sync.send(probe, torch, side)
print(json.dumps(probe.wrong))
"""


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        ("enabled", []),
        (
            "disabled",
            [
                "communicator",
                "sum of rank + 1",
                "bfloat16 weights that differ the first time, of 1048576",
                "bfloat16 weights that differ the second time, of 1048576",
                "uint8 weights that differ the first time, of 65536",
                "uint8 weights that differ the second time, of 65536",
            ],
        ),
        (
            "stale",
            [
                "bfloat16 weights that differ the second time, of 1048576",
                "uint8 weights that differ the second time, of 65536",
            ],
        ),
    ],
)
def test_a_communicator_that_disabled_itself(
    forked_python: Path, state: str, wrong: list[str]
) -> None:
    done = run_program([forked_python, "-W", "ignore", "-c", PROGRAM, state], env=on_cpu())
    assert json.loads(done.stdout) == wrong
