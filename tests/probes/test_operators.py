import json
from pathlib import Path
from typing import Any

import pytest

from tests.probes.started import start_probe
from tests.programs import on_cpu, run_program

PROBES = Path(__file__).parent.parent.parent / "probes"

MUTATED_INDEX = """
import torch
read, write = torch.Tensor.__getitem__, torch.Tensor.__setitem__

def is_mask(index):
    return isinstance(index, torch.Tensor) and index.dtype is torch.bool

def backwards(self, index):
    return read(self, index).flip(0) if is_mask(index) else read(self, index)

def forgetful(self, index, value):
    if not is_mask(index) or not index.any():
        write(self, index, value)

torch.Tensor.__getitem__, torch.Tensor.__setitem__ = backwards, forgetful
"""


def test_boolean_indexing_on_the_cpu(forked_python: Path) -> None:
    (rank,) = start_probe(forked_python, "bool-index").ranks
    assert (rank.ok, rank.wrong, rank.compared) == (True, (), 7)
    assert all("error" not in case for case in rank.values["cases"].values())


def test_a_wrong_read_and_a_lost_write_are_found(forked_python: Path, tmp_path: Path) -> None:
    run = start_probe(forked_python, "bool-index", mutation=MUTATED_INDEX, folder=tmp_path)
    wrong = {wrong.what.partition(":")[0] for wrong in run.ranks[0].wrong}
    assert wrong == {"read", "write", "vector", "rows", "backward", "repeated"}


def test_a_crash_is_repeated_apart_and_takes_no_other_case_along(forked_python: Path) -> None:
    fault = "rank=0,stage=inside write,do=segv"
    (rank,) = start_probe(forked_python, "bool-index", fault=fault).ranks
    cases = rank.values["cases"]
    assert cases["write"]["error"] == "ChildProcessError: the process crashed with SIGSEGV"
    assert [name for name, case in cases.items() if case.get("error")] == ["write"]
    # First after others, then first of its process.
    assert {"case write", "import for case write", "import for case vector"} <= set(rank.stages)


MUTATED_SOFTMAX = """
import json, sys
sys.path.insert(0, sys.argv[1])
import fused_softmax as probe, torch

def unmasked(scores, mask):
    return torch.softmax(scores * probe.SCALE, -1)

def unscaled(scores, mask):
    return torch.softmax(scores.masked_fill(mask, probe.MASKED), -1)

def detached(scores, mask):
    return torch.softmax((scores.detach() * probe.SCALE).masked_fill(mask, -1e4), -1) + 0 * scores

found = {one.__name__: probe.compare(torch, "cpu", "bfloat16", one)
         for one in (unmasked, unscaled, detached)}
print(json.dumps({**found, "plain": probe.plain(torch, "cpu")}))
"""


@pytest.fixture(scope="module")
def softmaxes(forked_python: Path) -> dict[str, dict[str, float]]:
    done = run_program([forked_python, "-c", MUTATED_SOFTMAX, PROBES], env=on_cpu())
    rows: dict[str, Any] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize(
    ("mutation", "wrong"), [("unmasked", "masked"), ("unscaled", "value"), ("detached", "gradient")]
)
def test_a_wrong_softmax_is_measured(
    softmaxes: dict[str, dict[str, float]], mutation: str, wrong: str
) -> None:
    assert softmaxes[mutation][wrong] > 0.02
    assert max(value for key, value in softmaxes["plain"].items() if key != "seconds") < 1e-5
