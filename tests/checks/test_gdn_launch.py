import pytest

from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips
from tests.checks.machine import copy, dist, having, imports, packages, run
from tests.checks.test_launch import launched

QWEN = "megatron sft --model Qwen/Qwen3.5-35B-A3B"
OTHER = "megatron sft --model Qwen/Qwen3-30B-A3B"


def on(facts: Snapshot, megatron: str) -> Snapshot:
    return imports(facts, "megatron", copy("/m/megatron", "/m", "core", core=megatron))


@pytest.mark.parametrize(
    ("command", "value", "level"),
    [
        (f"{QWEN} --context_parallel_size 2", "0", Level.ERROR),
        (f"{QWEN} --context_parallel_size 2", "1", Level.OK),
        (f"{QWEN} --context_parallel_size 1", "0", Level.OK),
        (f"{QWEN} --context_parallel_size=nine", "0", Level.UNKNOWN),
        (f"{OTHER} --context_parallel_size 2", "0", Level.SKIPPED),
        ("megatron sft --model /data/ckpt --context_parallel_size 2", "0", Level.SKIPPED),
    ],
)
def test_context_parallel_is_refused_for_gated_delta_nets_only(
    command: str, value: str, level: Level
) -> None:
    (finding,) = run("gdn-zero-with-cp", launched(command, USE_MCORE_GDN=value))
    assert finding.level is level


def test_the_remedy_is_one_that_this_megatron_can_follow() -> None:
    facts = launched(f"{QWEN} --context_parallel_size 2", USE_MCORE_GDN="0")
    old = fails("gdn-zero-with-cp", on(facts, "0.15.3"))
    new = fails("gdn-zero-with-cp", on(facts, "0.16.0"))
    assert not remedy_of(old).commands
    assert "USE_MCORE_GDN=1" not in old.required
    assert remedy_of(new).commands == ("export USE_MCORE_GDN=1",)


@pytest.mark.parametrize("variables", [{}, {"USE_MCORE_GDN": "1"}])
def test_qwen3_5_never_starts_on_an_old_megatron_without_zero(variables: dict[str, str]) -> None:
    facts = launched(QWEN, **variables)
    finding = fails("run-gdn-megatron", on(facts, "0.15.3"), "0.15.3")
    assert remedy_of(finding).commands == ("export USE_MCORE_GDN=0",)
    assert "experimental attention variant requires" in finding.because
    passes("run-gdn-megatron", on(facts, "0.16.0"))
    skips("run-gdn-megatron", on(launched(OTHER, **variables), "0.15.3"))
    skips("gdn-needs-zero", on(facts, "0.15.3"))


def test_zero_starts_it() -> None:
    facts = launched(QWEN, USE_MCORE_GDN="0")
    passes("run-gdn-megatron", on(facts, "0.15.3"))


def test_what_is_not_known_is_not_well() -> None:
    facts = launched(QWEN)
    nothing = having(having(facts, "import_path", names=()), "python", distributions=())
    cannot_tell("run-gdn-megatron", nothing, "which Megatron-LM")
    unnamed = launched("megatron sft --model \ufffc --context_parallel_size 2")
    cannot_tell("gdn-zero-with-cp", unnamed, "which model")


@pytest.mark.parametrize(
    ("version", "options", "value", "level"),
    [
        ("1.2.0", "--padding_free false", "0", Level.ERROR),
        ("1.2.3", "--padding_free false", "0", Level.OK),
        ("1.2.0", "--padding_free true", "0", Level.OK),
        ("1.2.0", "", "0", Level.OK),
        ("1.2.0", "--padding_free false", "1", Level.OK),
    ],
)
def test_old_bridges_need_padding_free(
    version: str, options: str, value: str, level: Level
) -> None:
    facts = packages(
        launched(f"{QWEN} {options}", USE_MCORE_GDN=value), dist("mcore-bridge", version)
    )
    assert run("run-gdn-padding", facts)[0].level is level
