from typing import Any

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.checks.levels import remedy_of
from tests.probes.judged import judge_probes

BEFORE: dict[str, Any] = {
    "losses": [4.5, 4.4, 4.3],
    "grad_norms": [1.0, 1.1, 1.2],
    "saved": {"digest": "ab", "evaluated": 4.8},
}
AFTER: dict[str, Any] = {
    "digest": "ab",
    "evaluated": 4.8,
    "losses": [4.4, 4.3],
    "grad_norms": [1.1, 1.2],
}


def judge_checkpoint(after: Any, *, device: str = "cpu") -> tuple[Finding, ...]:
    values: dict[str, Any] = {"layouts": {"TP2": BEFORE}}
    if after is not None:
        values["resumed"] = {"TP2": after, "megatron": "0.15.3"}
    ranks = (ProbeResult(rank=0, ok=True, values=values),)
    run = ProbeRun(probe="smoke-train", device=device, exit_code=0, ranks=ranks)
    return judge_probes(run, check="checkpoint")


def test_a_training_that_goes_on() -> None:
    (finding,) = judge_checkpoint(AFTER)
    assert finding.level is Level.OK
    assert "1 rank on cpu: TP2" in finding.observed


def test_what_trains_in_bfloat16_is_not_saved() -> None:
    layouts = {"TP2": BEFORE, "bfloat16 TP2": {"losses": [4.5], "kind": {"bf16": True}}}
    values = {"layouts": layouts, "resumed": {"TP2": AFTER}}
    ranks = (ProbeResult(rank=0, ok=True, values=values),)
    run = ProbeRun(probe="smoke-train", device="cpu", exit_code=0, ranks=ranks)
    (finding,) = judge_probes(run, check="checkpoint")
    assert finding.level is Level.OK
    assert "bfloat16" not in finding.observed


def test_an_earlier_stage_of_a_pipeline_has_no_loss() -> None:
    assert (
        judge_checkpoint({**AFTER, "evaluated": None, "losses": [None, None]})[0].level is Level.OK
    )


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"digest": "ac"}, "what was loaded is not what was saved under TP2"),
        ({"evaluated": 4.80001}, "the loss on unseen batches is another one"),
        ({"losses": [4.4, 4.31]}, "the loss of step 3 is another one after loading under TP2"),
        ({"grad_norms": [1.2, 1.2]}, "the gradient norm of step 2 is another one"),
        ({"losses": [4.4, "nan"]}, "the loss of step 3 is another one"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_training_that_does_not(change: dict[str, Any], title: str, device: str) -> None:
    (finding,) = judge_checkpoint({**AFTER, **change}, device=device)
    assert finding.level is Level.ERROR
    assert title in finding.title
    assert finding.ranks == (0,)


def test_only_an_accelerator_may_be_off_by_its_order_of_sums() -> None:
    close = {**AFTER, "evaluated": 4.8 + 5e-7}
    assert [finding.level for finding in judge_checkpoint(close, device="npu")] == [Level.WARNING]
    assert [finding.level for finding in judge_checkpoint(close)] == [Level.ERROR]


@pytest.mark.parametrize("after", [None, 7])
def test_nothing_was_resumed(after: object) -> None:
    assert judge_checkpoint(after)[0].level is Level.UNKNOWN


LOADED = {"off": {"weights": 1e-7, "first": 1e-6, "second": 1e-6, "tensors": 60}}
ELSEWHERE = {"layout": "TP2", "loaded": {"fully_reshardable": LOADED}}


def of_whole(
    saved: dict[str, Any] | None = None,
    loaded: dict[str, Any] | None = None,
    elsewhere: dict[str, Any] | None = None,
) -> tuple[Finding, ...]:
    """All weights trained, saved as Megatron does."""
    before = {**BEFORE, "saved": {**BEFORE["saved"], "failed": saved or {}}}
    after = {**AFTER, "loaded": {"dp_reshardable": LOADED, **(loaded or {})}}
    resumed = {"PP2": after, "PP2 elsewhere": elsewhere or ELSEWHERE}
    values: dict[str, Any] = {"layouts": {"PP2": before}, "resumed": resumed}
    ranks = (ProbeResult(rank=0, ok=True, values=values),)
    run = ProbeRun(probe="smoke-train", device="npu", simulated=True, exit_code=0, ranks=ranks)
    return judge_probes(run, check="checkpoint")


def test_what_was_loaded_is_told() -> None:
    (finding,) = of_whole()
    assert finding.level is Level.OK
    assert "with the optimizer as dp_reshardable; PP2 loaded as TP2" in finding.observed


def test_a_wrong_training_is_no_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = {"losses": [5.0, 4.0, 3.0], "grad_norms": BEFORE["grad_norms"]}
    monkeypatch.setitem(BEFORE, "reference", reference)
    dropped = {"fully_reshardable": {"off": {**LOADED["off"], "first": 0.9}}}
    assert of_whole(loaded=dropped)[0].level is Level.OK


def test_steps_that_are_tensors_are_explained() -> None:
    text = "AssertionError: steps: [tensor(3, device='npu:0'), tensor(3, device='npu:0')]"
    (finding,) = of_whole(saved={"dp_reshardable": text, "fully_reshardable": text})
    assert finding.title == "checkpoint: the distributed optimizer cannot be saved under PP2"
    assert finding.observed == f"{text} (dp_reshardable, fully_reshardable)"
    assert "equal tensors are different" in finding.because
    assert finding.remedy is not None
    (other,) = of_whole(saved={"dp_reshardable": "KeyError: 'x'"})
    assert other.remedy is None


def test_a_numpy_that_is_too_new_is_explained() -> None:
    text = "AttributeError: module 'numpy' has no attribute 'product'"
    (finding,) = of_whole(saved={"fully_sharded_model_space": text})
    assert "made for a NumPy below 2" in finding.because
    assert remedy_of(finding).commands == ("pip install 'numpy<2'",)


def test_a_way_that_mindspeed_cannot_load_is_explained() -> None:
    text = "NotImplementedError: Unknown sharding_type: fully_reshardable"
    (finding,) = of_whole(loaded={"fully_reshardable": {"error": text}})
    assert finding.observed == f"fully_reshardable: {text}"
    assert "MindSpeed puts a load_state_dict of its own" in finding.because
    assert "--dist-ckpt-optim-fully-reshardable" in remedy_of(finding).summary
    text = "NotImplementedError: Unknown sharding_type: dp_reshardable"
    (other,) = of_whole(loaded={"dp_reshardable": {"error": text}})
    assert "--no-load-optim" in remedy_of(other).summary
    assert "--dist-ckpt-optim-fully-reshardable" not in remedy_of(other).summary


@pytest.mark.parametrize(
    ("loaded", "elsewhere", "title", "observed"),
    [
        (
            {"fully_reshardable": {"error": "KeyError: 'step'"}},
            None,
            "what was saved cannot be loaded under PP2",
            "fully_reshardable: KeyError: 'step'",
        ),
        (
            {"fully_reshardable": {"off": {**LOADED["off"], "first": 0.9}}},
            None,
            "what was loaded is not what was trained under PP2",
            "fully_reshardable: the first moments of Adam off by 90.0%, on rank 0",
        ),
        (
            None,
            {"layout": "TP2", "loaded": {"x": {"off": {**LOADED["off"], "weights": "nan"}}}},
            "what was loaded is not what was trained under PP2, loaded as TP2",
            "x: weights off by nan%, on rank 0",
        ),
    ],
)
def test_what_was_dropped(loaded: Any, elsewhere: Any, title: str, observed: str) -> None:
    (finding,) = of_whole(loaded=loaded, elsewhere=elsewhere)
    assert (finding.title, finding.observed) == (f"checkpoint: {title}", observed)
