import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.programs import load_module

PROBES = Path(__file__).parent.parent.parent / "probes"


@pytest.fixture
def allreduce(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROBES))
    monkeypatch.setattr(sys, "path", list(sys.path))  # the contract takes its folder away
    return load_module(PROBES / "allreduce.py", "allreduce_probe")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64"])
def test_every_sum_is_exact_and_tells_ranks_apart(allreduce: ModuleType, dtype: str) -> None:
    exact = allreduce.EXACT[dtype]
    for world_size in range(1, 129):
        values, period = allreduce.weights(world_size, exact)
        assert len(values) == world_size
        assert 1 <= period <= 7
        assert sum(values) * period <= exact
        if world_size * (world_size + 1) // 2 <= exact:
            assert len(set(values)) == world_size


def test_the_cpu_adds_up_every_dtype(allreduce: ModuleType) -> None:
    assert allreduce._probe.lacking("cpu") == set()
