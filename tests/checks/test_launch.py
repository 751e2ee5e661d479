import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.launch import launch, parse_options
from ascend_doctor.facts import Launch, Snapshot
from ascend_doctor.findings import Level
from tests.checks.machine import having, healthy, run

GOOD = "torchrun --nproc-per-node 8 pretrain_gpt.py --context-parallel-size 2 --num-experts 128"

EP2 = "--expert-model-parallel-size 2"
ETP2 = "m.expert_tensor_parallel_size=2"


def launched(command: str, **variables: str) -> Snapshot:
    facts = msgspec.structs.replace(healthy(), launch=launch(command.split()))
    assert facts.environment is not None
    others = {
        name: value
        for name, value in facts.environment.variables.items()
        if name != "USE_MCORE_GDN"
    }
    return having(facts, "environment", variables={**others, **variables})


@pytest.mark.parametrize(
    ("check", "command", "level", "words"),
    [
        ("fp8-on-a2-a3", "x --fp8-format hybrid", Level.ERROR, "no FP8"),
        ("fp8-on-a2-a3", "x --fp8 --lr 1", Level.ERROR, "no FP8"),
        ("fp8-on-a2-a3", "x --fp8 false", Level.OK, ""),
        ("fp8-on-a2-a3", GOOD, Level.OK, ""),
        (
            "ep-expert-cap",
            "x --num-experts 257 --expert-model-parallel-size 2",
            Level.WARNING,
            "129",
        ),
        ("ep-expert-cap", f"x --num-experts 256 {EP2}", Level.OK, ""),
        ("ep-expert-cap", "x --lr 1", Level.SKIPPED, "how many experts"),
        ("run-launcher-options", "torchrun --nnodes two train.py", Level.ERROR, "nnodes"),
        ("run-launcher-options", "torchrun --nproc_per_node 8 train.py", Level.OK, ""),
        ("run-launcher-options", "x --lr 1", Level.SKIPPED, ""),
        ("lora-etp", f"swift --train_type lora {ETP2}", Level.ERROR, "2"),
        ("lora-etp", f"swift --train_type full {ETP2}", Level.OK, ""),
        (
            "lora-etp",
            "verl trainer.tuner_type=lora m.expert_tensor_parallel_size=2",
            Level.ERROR,
            "",
        ),
    ],
)
def test_options_are_judged(check: str, command: str, level: Level, words: str) -> None:
    (finding,) = run(check, launched(command))
    assert finding.level is level
    assert words in finding.title


@pytest.mark.parametrize(
    "check",
    [
        *("fp8-on-a2-a3", "ep-expert-cap", "lora-etp"),
        *("gdn-zero-with-cp", "run-gdn-megatron", "run-gdn-packing"),
    ],
)
def test_without_a_command_they_are_skipped(check: str) -> None:
    (finding,) = run(check, msgspec.structs.replace(healthy(), launch=Launch()))
    assert finding.level is Level.SKIPPED


def test_every_way_of_giving_an_option_is_read() -> None:
    command = [
        "A=1",
        "--num-experts",
        "8",
        "--fp8",
        "--lr",
        "1e-5",
        "a.b.context_parallel_size=4",
        "+model.fp8_format=e4m3",
        "--expert_tensor_parallel_size=2",
        "--api-key",
        "secret",
    ]
    assert parse_options(command) == {
        "num_experts": "8",
        "fp8": "",
        "context_parallel_size": "4",
        "fp8_format": "e4m3",
        "expert_tensor_parallel_size": "2",
    }


@given(st.lists(st.text()))
def test_no_command_makes_it_raise(command: list[str]) -> None:
    parse_options(command)
