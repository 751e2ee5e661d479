import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.programs import load_module, on_cpu, run_program

PROBES = Path(__file__).parent.parent.parent / "probes"


@pytest.fixture(scope="module")
def layouts() -> ModuleType:
    return load_module(PROBES / "_layouts.py", "probe_layouts")


def pairs(*first: int, by: int = 1) -> list[list[int]]:
    return [[rank, rank + by] for rank in first]


def alone(count: int) -> list[list[int]]:
    return [[rank] for rank in range(count)]


EVENS_ODDS = [[0, 2, 4, 6], [1, 3, 5, 7]]
NEIGHBOURS = pairs(0, 2, 4, 6)

# What Megatron-LM 0.12.1 to 0.19.0 were seen to build.
SEEN: dict[str, tuple[int, dict[str, Any], dict[str, list[list[int]]]]] = {
    "TP2": (2, {"tp": 2}, {"tp": [[0, 1]], "mp": [[0, 1]], "etp": [[0, 1]], "dp": alone(2)}),
    "TP8": (8, {"tp": 8}, {"tp_ep": [list(range(8))], "pp": alone(8), "edp": alone(8)}),
    "TP2 EP4": (
        8,
        {"tp": 2, "ep": 4},
        {"tp": NEIGHBOURS, "etp": NEIGHBOURS, "dp_cp": EVENS_ODDS, "ep": EVENS_ODDS}
        | {"tp_ep": [list(range(8))], "edp": alone(8)},
    ),
    "TP2 EP4 ETP1": (
        8,
        {"tp": 2, "ep": 4, "etp": 1},
        {"tp": NEIGHBOURS, "dp": EVENS_ODDS, "ep": [[0, 1, 2, 3], [4, 5, 6, 7]]}
        | {"etp": alone(8), "edp": pairs(0, 1, 2, 3, by=4)},
    ),
    "TP2 PP2": (
        8,
        {"tp": 2, "pp": 2},
        {"tp": NEIGHBOURS, "dp": pairs(0, 1, 4, 5, by=2), "edp": pairs(0, 1, 4, 5, by=2)}
        | {"pp": pairs(0, 1, 2, 3, by=4), "mp": [[0, 1, 4, 5], [2, 3, 6, 7]], "ep": alone(8)},
    ),
    "EP2": (8, {"ep": 2}, {"dp": [list(range(8))], "ep": NEIGHBOURS, "edp": EVENS_ODDS}),
    "TP2 PP2 EP2 ETP1": (
        8,
        {"tp": 2, "pp": 2, "ep": 2, "etp": 1},
        {"tp": NEIGHBOURS, "dp": pairs(0, 1, 4, 5, by=2), "ep": NEIGHBOURS, "etp": alone(8)}
        | {"edp": pairs(0, 1, 4, 5, by=2), "pp": pairs(0, 1, 2, 3, by=4)},
    ),
    "TP2 EP8 ETP1": (
        16,
        {"tp": 2, "ep": 8, "etp": 1},
        {"ep": [list(range(8)), list(range(8, 16))], "edp": pairs(*range(8), by=8)},
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_the_groups_are_those_that_were_seen(layouts: ModuleType, name: str) -> None:
    world_size, sizes, expected = SEEN[name]
    layout = layouts.ProbeLayout(**sizes)
    assert layout.name == name
    assert layout.fits(world_size)
    groups = layouts.groups(layout, world_size)
    assert {kind: groups[kind] for kind in expected} == expected


def test_some_layout_fits_any_number_of_ranks(layouts: ModuleType) -> None:
    for world_size in range(1, 65):
        chosen = layouts.layouts(world_size)
        assert 1 <= len(chosen) <= 6
        assert len({layout.name for layout in chosen}) == len(chosen)
        for layout in chosen:
            assert layout.fits(world_size)
            for groups in layouts.groups(layout, world_size).values():
                assert sorted(rank for group in groups for rank in group) == list(range(world_size))


# The real parallel_state, for every rank in turn, over groups that only know their members.
REAL = """
import json, sys
sys.path.insert(0, sys.argv[1])
from _layouts import ProbeLayout, groups
from parallel_groups import GETTERS
import torch.distributed as dist
from megatron.core import parallel_state
from torch.testing._internal.distributed.fake_pg import FakeStore

def members(layout, size, rank):
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    given = {} if layout.etp is None else {"expert_tensor_parallel_size": layout.etp}
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tp, pipeline_model_parallel_size=layout.pp,
        context_parallel_size=layout.cp, expert_model_parallel_size=layout.ep,
        create_gloo_process_groups=False, **given)
    found = {}
    for name, getter in GETTERS.items():
        group = getattr(parallel_state, getter)(**({"with_context_parallel": True}
                                                   if name == "dp_cp" else {}))
        found[name] = sorted(dist.get_process_group_ranks(group))
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
    return found

powers = (1, 2, 4, 8)
tried, wrong = 0, []
for size in (4, 8, 12, 16):
    for layout in (ProbeLayout(tp, pp, ep, cp, etp) for tp in powers for pp in (1, 2)
                   for ep in powers for cp in (1, 2) for etp in (None, 1)):
        if not layout.fits(size) or size > 8 and layout.tp * layout.ep < 8:
            continue
        tried += 1
        wanted = groups(layout, size)
        for rank in (0, size // 2 + 1):
            found = members(layout, size, rank)
            wrong += [f"{name} of {layout.name}, {size} ranks" for name in found
                      if found[name] not in wanted[name] or rank not in found[name]]
print(json.dumps([tried, wrong]))
"""


def test_megatron_builds_the_same_groups(forked_megatron: Path) -> None:
    done = run_program([forked_megatron, "-c", REAL, PROBES], env=on_cpu())
    tried, wrong = json.loads(done.stdout.splitlines()[-1])
    assert tried > 40
    assert wrong == []
