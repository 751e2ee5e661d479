"""MindSpeed-RL: configurations by role, and the scripts that start them."""

from pathlib import Path

import pytest

from ascend_doctor.findings import Finding, Level
from tests.linting.judged import judge_text

MODEL = """\
qwen:
  num_layers: 28
  hidden_size: 3584
  num_attention_heads: 28
  group_query_attention: true
  num_query_groups: 4
"""
CONFIGURATION = """\
defaults:
  - model:
      - qwen

megatron_training:
  model: qwen
  sequence_parallel: true
  global_batch_size: 64
  seq_length: 1024

actor_config:
  micro_batch_size: 2
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2

rl_config:
  use_remove_padding: true
  actor_resource:
    num_npus: 16

generate_config:
  sampling_config:
    max_tokens: 1024
"""
ENTRY = """\
import hydra


@hydra.main(config_path="../configs", config_name="grpo", version_base=None)
def main(config):
    pass
"""


def lint_file(path: Path) -> list[Finding]:
    return judge_text(str(path), path.read_bytes(), "0.12.1")


def spots(findings: list[Finding], level: Level = Level.ERROR) -> list[tuple[str, str]]:
    return [
        (f"{Path(finding.location.file).name}:{finding.location.line}", finding.check)
        for finding in findings
        if finding.level is level and finding.location is not None
    ]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    contents = {
        "configs/grpo.yaml": CONFIGURATION,
        "configs/model/qwen.yaml": MODEL,
        "cli/train_grpo.py": ENTRY,
        "examples/grpo/run.sh": "python cli/train_grpo.py --config-name grpo | tee log\n",
    }
    for name, content in contents.items():
        folder = tmp_path / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text(content)
    return tmp_path


def change(checkout: Path, name: str, before: str, after: str) -> int:
    """Change one line; return its number."""
    path = checkout / name
    content = path.read_text()
    assert content.count(before) == 1
    path.write_text(content.replace(before, after))
    return content[: content.index(before)].count("\n") + 1


def test_a_configuration_that_fits_is_well(checkout: Path) -> None:
    findings = lint_file(checkout / "configs/grpo.yaml")
    assert [finding for finding in findings if finding.level > Level.SKIPPED] == []
    ran = {finding.check for finding in findings if finding.level is Level.OK}
    assert {"run-world-size", "run-heads-divide", "run-layers-divide"} <= ran


@pytest.mark.parametrize("script", ["configs/grpo.yaml", "examples/grpo/run.sh"])
@pytest.mark.parametrize(
    ("name", "before", "after", "check"),
    [
        ("grpo", "tensor_model_parallel_size: 4", "3", "run-world-size"),
        ("grpo", "num_npus: 16", "17", "run-world-size"),
        ("grpo", "pipeline_model_parallel_size: 2", "8", "run-layers-divide"),
        ("model/qwen", "num_attention_heads: 28", "27", "run-heads-divide"),
        ("grpo", "use_remove_padding: true", "ture", "run-override-values"),
        ("grpo", "seq_length: 1024", "10x24", "run-override-values"),
        ("grpo", "num_npus: 16", "0", "run-override-values"),
    ],
)
def test_a_mistake_is_found_at_its_line(
    checkout: Path, script: str, name: str, before: str, after: str, check: str
) -> None:
    after = after if ":" in after else f"{before.partition(':')[0]}: {after}"
    line = change(checkout, f"configs/{name}.yaml", before, after)
    reported = spots(lint_file(checkout / script))
    file = f"{Path(name).name}.yaml"
    assert (f"{file}:{line}", check) in reported


def test_what_a_command_overrides_counts(checkout: Path) -> None:
    script = checkout / "examples/grpo/run.sh"
    script.write_text(
        "python cli/train_grpo.py --config-name=grpo \\\n"
        "    actor_config.tensor_model_parallel_size=3 +rl_config.lam=0.9\n"
    )
    assert ("run.sh:2", "run-world-size") in spots(lint_file(script))


def test_the_entry_file_names_its_configuration(checkout: Path) -> None:
    script = checkout / "examples/grpo/run.sh"
    script.write_text("python cli/train_grpo.py\n")
    change(checkout, "configs/grpo.yaml", "num_npus: 16", "num_npus: 20")
    assert ("grpo.yaml:19", "run-world-size") in spots(lint_file(script))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("python cli/train_grpo.py --config-name other", "--config-name other"),
        ("python cli/train_grpo.py --config-name=$X", "--config-name"),
        ("python train_model.py --config-name big --config-path ../conf", "--config-name big"),
        ("python -m verl.trainer.main_ppo --config-name own", "--config-name own"),
    ],
)
def test_a_configuration_that_is_not_read_is_not_judged(
    checkout: Path, command: str, shown: str
) -> None:
    (checkout / "examples/grpo/run.sh").write_text(command + "\n")
    findings = lint_file(checkout / "examples/grpo/run.sh")
    unjudged = [finding for finding in findings if finding.check == "launch-resolved"]
    assert [finding.level for finding in unjudged] == [Level.UNKNOWN]
    assert shown in unjudged[0].observed


def test_a_model_that_is_not_read_is_not_judged(checkout: Path) -> None:
    (checkout / "configs/model/qwen.yaml").unlink()
    findings = lint_file(checkout / "configs/grpo.yaml")
    assert spots(findings, Level.UNKNOWN) == [("grpo.yaml:3", "launch-resolved")]
