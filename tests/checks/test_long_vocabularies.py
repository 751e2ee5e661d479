import copy
from typing import Any

import pytest

from ascend_doctor.checks.probes.fp8 import alignment
from ascend_doctor.checks.probes.long_vocabularies import collectives
from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.probes.judged import judge_probes


def judge_values(probe: str, values: dict[str, Any], **fields: Any) -> tuple[Finding, ...]:
    ranks = tuple(ProbeResult(rank=rank, ok=True, values=values, **fields) for rank in (0, 1))
    run = ProbeRun(probe=probe, device="cpu", world_size=2, exit_code=0, ranks=ranks)
    return judge_probes(run, check=probe)


CHUNKS = ("None", "1", "2", "4", "16")
NOTICED = {"error": "a variable has been modified by an inplace operation"}
RIGHT = {"gradient_off": 7e-9}


def measure(chunk: str) -> dict[str, Any]:
    forward, backward = collectives(6, None if chunk == "None" else int(chunk))
    off = {"value_off": 1e-7, "gradient_off": 7e-9}
    return {**off, "forward": forward, "backward": backward}


VOCABULARY: dict[str, Any] = {
    "chunks": {chunk: measure(chunk) for chunk in CHUNKS},
    "in_place": {
        "none": {"entropy first": dict.fromkeys(CHUNKS, RIGHT)},
        "entropy": {
            "log-probability first": {**dict.fromkeys(CHUNKS, NOTICED), "None": RIGHT},
            "entropy first": dict.fromkeys(CHUNKS, RIGHT),
        },
    },
    "cross_entropy": measure("None"),
}


def test_log_probabilities_that_are_right() -> None:
    (finding,) = judge_values("vocab-parallel-logprob", VOCABULARY)
    assert finding.level is Level.OK
    assert "1280, 160, 80 in chunks of 16, 128, 256" in finding.observed
    assert "refused by autograd in 4 of 10 orders and chunks" in finding.observed


@pytest.mark.parametrize(
    ("path", "value", "title"),
    [
        (("chunks", "2", "value_off"), 1e-3, "log-probabilities in chunks of 2 are wrong"),
        (("chunks", "None", "gradient_off"), "nan", "log-probabilities at once are wrong"),
        (("chunks", "4", "backward"), 3, "log-probabilities in chunks of 4 take other collectives"),
        (("cross_entropy", "value_off"), 1.0, "the cross entropy of megatron.core is wrong"),
        (
            ("in_place", "none", "entropy first", "1"),
            NOTICED,
            "the gradient of log-probability and entropy is wrong with entropy first",
        ),
        (
            ("in_place", "entropy", "log-probability first", "1"),
            {"gradient_off": 0.1},
            "autograd does not notice that the entropy backward writes in place",
        ),
        (
            ("in_place", "entropy", "log-probability first", "1"),
            {"error": "out of memory"},
            "autograd does not notice",
        ),
    ],
)
def test_log_probabilities_that_are_wrong(path: tuple[str, ...], value: object, title: str) -> None:
    values = copy.deepcopy(VOCABULARY)
    section = values
    for key in path[:-1]:
        # Rows of one table may share an object.
        section[key] = dict(section[key])
        section = section[key]
    section[path[-1]] = value
    (finding,) = judge_values("vocab-parallel-logprob", values)
    assert finding.level is Level.ERROR
    assert title in finding.title


LEFT = {"mask": [0, 0, 1, 1], "rebuilt": [1, 1, 0, 0], "right_padded": False}


def test_masks() -> None:
    (finding,) = judge_values("attention-mask-rebuild", {"left": LEFT}, compared=15)
    assert finding.level is Level.OK
    assert "[0, 0, 1, 1], would become [1, 1, 0, 0], and is refused" in finding.observed
    (finding,) = judge_values("attention-mask-rebuild", {"left": {**LEFT, "right_padded": True}})
    assert finding.level is Level.ERROR
    assert judge_values("attention-mask-rebuild", {})[0].level is Level.UNKNOWN


def test_a_gather_and_a_synchronisation() -> None:
    (finding,) = judge_values("sequence-gather", {}, compared=20)
    assert finding.observed == "2 ranks on cpu, 40 results compared"
    (finding,) = judge_values("weight-sync", {"through": "vllm"})
    assert finding.level is Level.OK
    assert "1 receivers on cpu, through vllm-ascend's" in finding.observed


def test_fp8_aligns_sequences_by_parallel_sizes() -> None:
    assert [alignment(tp=size) for size in (1, 3, 8, 12)] == [16, 48, 16, 48]
    assert alignment(tp=1, recipe="mxfp8") == 32
    # What was believed: max(TP, 8).
    assert [max(size, 8) % alignment(tp=size) for size in (1, 3, 12)] != [0, 0, 0]


@pytest.mark.parametrize(
    ("values", "level"),
    [
        ({"unable": "", "alignment": {"delayed": 16, "mxfp8": 32}}, Level.OK),
        ({"unable": "", "alignment": {"delayed": None, "mxfp8": None}}, Level.OK),
        ({"unable": "", "alignment": {"delayed": 8, "mxfp8": 32}}, Level.ERROR),
        ({"unable": "Ascend910B3: for Ascend 950 alone"}, Level.SKIPPED),
        ({}, Level.UNKNOWN),
    ],
)
def test_fp8(values: dict[str, Any], level: Level) -> None:
    assert judge_values("fp8", values)[0].level is level
