import re
from pathlib import Path

from ascend_doctor.probe_results import ProbeRun
from tests.probes.started import start_probe

# Forgets the expert tensor parallel size without a pipeline; with one, swaps its lower ranks.
MUTATION = """
from megatron.core import parallel_state

initialise, ranks = parallel_state.initialize_model_parallel, parallel_state.RankGenerator.get_ranks

def forgetful(**sizes):
    if sizes["pipeline_model_parallel_size"] == 1:
        sizes.pop("expert_tensor_parallel_size", None)
    initialise(**sizes)

def swapped(self, token):
    found = ranks(self, token)
    return [[0, 3], [1, 2]] if token == "pp" and found == [[0, 2], [1, 3]] else found

parallel_state.initialize_model_parallel = forgetful
parallel_state.RankGenerator.get_ranks = swapped
"""


def wrong(run: ProbeRun) -> set[tuple[str, str]]:
    pattern = re.compile(r"(\w+) group(?: of rank \d)?, (.*)")
    matches = [pattern.search(wrong.what) for rank in run.ranks for wrong in rank.wrong]
    return {(match[1], match[2]) for match in matches if match}


def test_there_are_no_groups_without_megatron(forked_python: Path, tmp_path: Path) -> None:
    hide = "import sys\nsys.modules['megatron'] = None"
    run = start_probe(forked_python, "parallel-groups", mutation=hide, folder=tmp_path)
    assert run.ranks[0].skipped == "megatron-core is not installed"


def test_the_groups_of_the_real_megatron(forked_megatron: Path) -> None:
    run = start_probe(forked_megatron, "parallel-groups", ranks=4)
    assert all(rank.ok and not rank.wrong for rank in run.ranks)
    assert list(run.ranks[0].values["layouts"]) == [
        "TP2",
        "TP2 PP2",
        "TP2 EP2",
        "TP2 EP2 ETP1",
        "TP2 PP2 EP2 ETP1",
        "PP2",
    ]
    # 10 kinds of groups in 6 layouts, and sums where there are several ranks.
    sums = sum(layout["groups"] for layout in run.ranks[0].values["layouts"].values())
    assert [rank.compared for rank in run.ranks] == [60 + sums] * 4
    assert [rank.values["float64_sum"] for rank in run.ranks] == [10.0] * 4


def test_other_members_than_there_should_be(forked_megatron: Path, tmp_path: Path) -> None:
    run = start_probe(
        forked_megatron, "parallel-groups", ranks=4, mutation=MUTATION, folder=tmp_path
    )
    pairs = wrong(run)
    assert pairs == {
        *((kind, "TP2 EP2 ETP1") for kind in ("ep", "etp", "tp_ep", "edp")),
        *(("pp", layout) for layout in ("TP2 PP2", "TP2 PP2 EP2 ETP1", "PP2")),
    }


def test_a_group_that_adds_up_something_else(forked_megatron: Path) -> None:
    fault = "rank=3,stage=sums in TP2 EP2,do=value"
    run = start_probe(forked_megatron, "parallel-groups", ranks=4, fault=fault)
    # The groups of rank 3, and whoever shares one with it.
    assert {layout for _, layout in wrong(run)} == {"TP2 EP2", "TP2 EP2 ETP1"}
    assert ("ep", "TP2 EP2") in wrong(run)
