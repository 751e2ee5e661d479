"""Possible causes, alternatives and settings are not evidence; statements beside them are."""

import pytest

from tests.diagnosis.logs import answer, of_text

OOM = "NPU out of memory. Tried to allocate 2.00 GiB"
CAUSES = "(1) the process was killed by the OOM killer, (2) ray stop --force was called"
POSSIBLE = (
    f"The actor stopped; some common causes include: {CAUSES}",
    f"There are some potential root causes. {CAUSES}",
    f"Possible Cause: 1. {OOM} 2. The disk is full: No space left on device",
    f"Possible causes:\n  1. {OOM}\n  2. No space left on device",
    f"(raylet) Possible Cause:\n(raylet) - was killed by the OOM killer\n(raylet) - {OOM}",
    f"可能原因\uff1a1. {OOM}",
)
STATED = (
    f"RuntimeError: {OOM}\nPossible Cause: 1. The model is too large.",
    f"Possible causes:\n  1. The model is too large.\nRuntimeError: {OOM}",
    f"1. {OOM}",
    f"The possible cause is unknown\nRuntimeError: {OOM}",
)
SETTINGS = (
    "'truncation': 'error',",
    "{'data': {'truncation': 'error', 'on_failure': 'abort'}, 'nccl_timeout': 600}",
    '  "on_timeout": "abort",',
    "[ASYNC MAIN] Training completed or interrupted",
)
RECORDS = (
    "{'error': 'refused'}",
    '{"status": "failed"}',
    "{'truncation': 'error', 'reason': 'the connection was refused by the server'}",
    "Training interrupted",
)


@pytest.mark.parametrize("text", POSSIBLE)
def test_a_possible_cause_is_not_the_cause(text: str) -> None:
    assert answer(of_text(f"{text}\n")) in {"none", "unknown"}


@pytest.mark.parametrize("text", STATED)
def test_a_stated_cause_beside_a_list_is_the_cause(text: str) -> None:
    assert answer(of_text(f"{text}\n")) == "npu-oom-torch"


@pytest.mark.parametrize("text", SETTINGS)
def test_a_setting_is_not_an_error(text: str) -> None:
    assert answer(of_text(f"{text}\n")) == "none"


@pytest.mark.parametrize("text", RECORDS)
def test_a_record_of_an_error_is_an_error(text: str) -> None:
    assert answer(of_text(f"{text}\n")) == "unknown"
