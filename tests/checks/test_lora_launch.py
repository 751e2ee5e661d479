import pytest

from ascend_doctor.findings import Level
from tests.checks.levels import fails, remedy_of
from tests.checks.machine import copy, dist, imports, packages, run
from tests.checks.test_launch import launched

LORA = "megatron sft --model Qwen/Qwen3-30B-A3B --tuner_type lora"
EP4 = "--expert_model_parallel_size 4"


@pytest.mark.parametrize(
    ("command", "version", "level"),
    [
        (f"{LORA} {EP4}", "1.5.0", Level.ERROR),
        (f"{LORA} {EP4}", "1.6.4", Level.ERROR),
        (f"{LORA} {EP4} --tensor_model_parallel_size 2", "1.5.1", Level.ERROR),
        (f"{LORA} {EP4} --target_modules linear_fc1 linear_qkv", "1.5.1", Level.ERROR),
        (f"{LORA} {EP4}", "1.6.5", Level.OK),
        (f"{LORA} {EP4}", "1.4.3", Level.OK),
        (f"{LORA} {EP4} --tensor_model_parallel_size 4", "1.5.0", Level.OK),
        (f"{LORA} {EP4} --tensor_model_parallel_size 8", "1.5.0", Level.OK),
        (f"{LORA} {EP4} --target_modules linear_qkv linear_proj", "1.5.0", Level.UNKNOWN),
        (f"{LORA.replace('lora', 'full')} {EP4}", "1.5.0", Level.OK),
        (f"{LORA} {EP4} --target_modules $WHICH", "1.5.0", Level.UNKNOWN),
        (f"swift sft --tuner_type lora {EP4}", "1.5.0", Level.SKIPPED),
    ],
)
def test_adapters_of_experts_keep_their_gradients(command: str, version: str, level: Level) -> None:
    (finding,) = run("run-expert-lora", packages(launched(command), dist("mcore-bridge", version)))
    assert finding.level is level


@pytest.mark.parametrize(
    ("megatron", "release"), [("0.15.3", "1.4.3"), ("0.16.1", "1.6.5"), ("0.17.0", "1.6.5")]
)
def test_the_way_out_is_a_bridge_that_takes_this_megatron(megatron: str, release: str) -> None:
    facts = packages(launched(f"{LORA} {EP4}"), dist("mcore-bridge", "1.5.0"))
    imported = imports(facts, "megatron", copy("/m/megatron", "/m", "core", core=megatron))
    finding = fails("run-expert-lora", imported)
    (command,) = remedy_of(finding).commands
    assert command.endswith(f"mcore-bridge=={release}")
