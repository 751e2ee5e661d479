"""The simulator on releases of torch that have less than the one that is installed."""

import json
from pathlib import Path

import pytest

from tests.programs import on_cpu, run_program

OPERATORS = Path(__file__).parents[2] / "ascend_doctor" / "simulator" / "operators"
PROBES = Path(__file__).parents[2] / "probes"

# Library.impl as torch 2.6 and 2.7 have it: what Python registered before is refused, and there is
# no word to ask for more. ``plain`` registers without the simulator's help.
LIBRARY = """
import importlib.util, json, sys, warnings
import torch
path, way = sys.argv[1:]
spec = importlib.util.spec_from_file_location("torch_releases", path)
releases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(releases)

class Old(torch.library.Library):
    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False):
        key = f"{self.ns}/{op_name}/{dispatch_key or self.dispatch_key}"
        if key in torch.library._impls:
            raise RuntimeError("there's already a kernel registered from python")
        super().impl(op_name, fn, dispatch_key, with_keyset=with_keyset, allow_override=True)

kind = Old if way.startswith("old") else torch.library.Library
first = torch.library.Library("aten", "IMPL", "CPU")
first.impl("erfinv", lambda self: self + 1)
second = kind("aten", "IMPL", "CPU")
try:
    if way == "old, plain":
        second.impl("erfinv", lambda self: self + 2)
    else:
        releases.override(second, "erfinv", lambda self: self + 2)
except (RuntimeError, TypeError) as error:
    print(json.dumps(str(error)))
else:
    print(json.dumps(torch.erfinv(torch.zeros(())).item()))
"""

# torch 2.10 gave FakeProcessGroup a factory in place of its constructor.
MEMBERS = """
import json, sys
import torch
from torch.testing._internal.distributed import fake_pg
path, way = sys.argv[1:]
sys.path.insert(0, path)
import _members

class Old:
    def __new__(cls, rank, size):
        return made._create_internal(rank, size) if hasattr(made, "_create_internal") \\
            else made(rank, size)

made = fake_pg.FakeProcessGroup
if way == "old":
    fake_pg.FakeProcessGroup = Old
_members.pretend(torch, 5, 8)
group = torch.distributed.new_group([1, 5, 6])
print(json.dumps([torch.distributed.get_rank(group), torch.distributed.get_world_size(group)]))
"""


def answer(python: Path, program: str, *arguments: str) -> object:
    done = run_program(
        [python, "-W", "ignore", "-c", program, *arguments], check=False, env=on_cpu()
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("way", "gives"),
    [("old", 2.0), ("new", 2.0), ("old, plain", "there's already a kernel registered from python")],
)
def test_a_kernel_from_python_is_replaced(examined_python: Path, way: str, gives: object) -> None:
    assert answer(examined_python, LIBRARY, str(OPERATORS / "torch_releases.py"), way) == gives


@pytest.mark.parametrize("way", ["old", "new"])
def test_groups_that_only_know_their_members(examined_python: Path, way: str) -> None:
    assert answer(examined_python, MEMBERS, str(PROBES), way) == [1, 3]
