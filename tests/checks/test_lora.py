import math
from typing import Any

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.probes.judged import judge_probes

EQUAL = {"dense tensor": 0.0, "dense data": 0.0, "expert tensor": 0.0, "expert data": 0.0}
RIGHT = {"losses": [4.9, 4.8, 4.7], "differences": EQUAL}
FIRST_STAGE = {"losses": [None, None, None], "differences": EQUAL}


def drift(group: str, by: float = 0.03) -> dict[str, Any]:
    return {"losses": [4.9, 4.79, 4.68], "differences": {**EQUAL, group: by}}


def judge_probe(probe: str, *ranks: dict[str, Any]) -> tuple[Finding, ...]:
    results = tuple(
        ProbeResult(rank=rank, ok=True, values={"megatron": "0.15.3", **values})
        for rank, values in enumerate(ranks)
    )
    run = ProbeRun(probe=probe, device="cpu", world_size=len(ranks), exit_code=0, ranks=results)
    return judge_probes(run, check=probe)


SEQUENCE = {"whole": RIGHT, "marked": RIGHT, "unmarked": drift("dense tensor")}
EXPERTS = {"ETP1": RIGHT, "ETP2": drift("expert tensor")}
TIED = {"whole": RIGHT, "pipeline": RIGHT}


@pytest.mark.parametrize(
    ("probe", "values", "text"),
    [
        (
            "lora-sequence-parallel",
            SEQUENCE,
            "without the mark sequence_parallel they drift by 0.03",
        ),
        ("lora-sequence-parallel", {**SEQUENCE, "unmarked": RIGHT}, "they stay equal, too"),
        ("lora-experts", EXPERTS, "with ETP 2 they drift by 0.03 in three steps, so keep ETP at 1"),
        ("lora-experts", {**EXPERTS, "ETP2": RIGHT}, "with ETP 2 they are equal here, too"),
        ("lora-tied-embeddings", TIED, "the losses of plain torch, megatron.core 0.15.3"),
    ],
)
def test_adapters_that_are_right(probe: str, values: dict[str, Any], text: str) -> None:
    (finding,) = judge_probe(probe, values, values)
    assert finding.level is Level.OK
    assert text in finding.observed


@pytest.mark.parametrize(("probe", "values"), [("lora-sequence-parallel", SEQUENCE)])
def test_without_losses_nothing_is_right(probe: str, values: dict[str, Any]) -> None:
    hollow = {name: {**run, "losses": []} for name, run in values.items()}
    (finding,) = judge_probe(probe, hollow, hollow)
    assert (finding.level, "recorded no losses of whole" in finding.title) == (Level.UNKNOWN, True)


@pytest.mark.parametrize(
    ("probe", "values", "title"),
    [
        (
            "lora-sequence-parallel",
            {**SEQUENCE, "marked": {**RIGHT, "losses": [4.9, 4.79, 4.68]}},
            "the losses are wrong under TP2 with sequence parallelism",
        ),
        (
            "lora-sequence-parallel",
            {**SEQUENCE, "marked": {**RIGHT, "losses": [4.9, 4.8, math.nan]}},
            "the losses are wrong under TP2 with sequence parallelism",
        ),
        (
            "lora-sequence-parallel",
            {**SEQUENCE, "marked": {**drift("dense tensor"), "losses": RIGHT["losses"]}},
            "sequence parallel ranks hold different adapters",
        ),
        ("lora-experts", {**EXPERTS, "ETP1": drift("expert tensor")}, "expert tensor parallel"),
        (
            "lora-experts",
            {**EXPERTS, "ETP1": drift("expert data", math.nan)},
            "expert data parallel ranks hold different adapters",
        ),
        (
            "lora-tied-embeddings",
            {**TIED, "pipeline": drift("dense data")},
            "the losses are wrong under PP2 with tied embeddings",
        ),
    ],
)
def test_adapters_that_are_wrong(probe: str, values: dict[str, Any], title: str) -> None:
    (finding,) = judge_probe(probe, {**values}, {**values})
    assert finding.level is Level.ERROR
    assert title in finding.title


def test_a_gradient_that_is_none() -> None:
    failed = {
        "whole": RIGHT,
        "error": "TypeError: Invalid function argument",
        "mended": FIRST_STAGE,
    }
    last = {**failed, "mended": RIGHT}
    (finding,) = judge_probe("lora-tied-embeddings", failed, last)
    assert finding.level is Level.WARNING
    assert "TypeError: Invalid function argument, in the first step" in finding.observed
    assert "Without that sum the losses are right." in finding.because
    wrong = {**failed, "mended": drift("dense data")}
    assert [finding.level for finding in judge_probe("lora-tied-embeddings", failed, wrong)] == [
        Level.ERROR,
        Level.ERROR,
    ]


def way(group: int, configuration: int, fc1: int, fc2: int, taken: str = "") -> dict[str, Any]:
    errors = {"fc1": f"shape '[{fc1}, 8]' is invalid for input of size {taken}"} if taken else {}
    names = {"group": group, "configuration": configuration, "errors": errors}
    return {**names, "fc1": [fc1, 8], "fc2": [8, fc2]}


WAYS = {
    "neither": way(2, 2, 16, 8),
    "both": way(1, 1, 32, 16),
    "configuration only": way(2, 1, 16, 8, "256"),
    "groups only": way(1, 2, 32, 16, "128"),
}


def test_experts_that_are_cut_by_the_rules() -> None:
    (finding,) = judge_probe("expert-shapes", {"ways": WAYS})
    assert finding.level is Level.OK
    assert (
        "given to one alone: shape '[16, 8]' is invalid for input of size 256" in finding.observed
    )


@pytest.mark.parametrize(
    ("way", "change", "observed"),
    [
        ("both", {"fc1": [16, 8]}, "fc1: [16, 8]"),
        ("neither", {"group": 1}, "group: 1"),
        ("both", {"errors": {"fc1": "shape"}}, "fits: False"),
        ("groups only", {"errors": {}}, "fits: True"),
    ],
)
def test_experts_that_are_cut_otherwise(way: str, change: dict[str, Any], observed: str) -> None:
    (finding,) = judge_probe("expert-shapes", {"ways": {**WAYS, way: {**WAYS[way], **change}}})
    assert finding.level is Level.ERROR
    assert observed in finding.observed
    assert f"ETP given to {way}" in finding.title
