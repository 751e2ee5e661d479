"""`plan LAUNCH` and lint's verdict on the memory of a launch."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ascend_doctor.commands import lint, plan

SMALL = {
    "num-layers": 32, "hidden-size": 4096, "ffn-hidden-size": 11008, "num-attention-heads": 32,
    "seq-length": 4096, "micro-batch-size": 1, "vocab-size": 32000,
    "tensor-model-parallel-size": 8,
}  # fmt: skip
SWITCHES = ("swiglu", "bf16", "use-flash-attn", "use-distributed-optimizer")


def script(folder: Path, *switches: str, without: str = "", **options: object) -> str:
    """Eight NPUs; these options replace those of SMALL."""
    sizes = {**SMALL, **{name.replace("_", "-"): value for name, value in options.items()}}
    words = [f"--{name} {value}" for name, value in sizes.items() if value is not None]
    words += [f"--{name}" for name in (*SWITCHES, *switches) if name != without]
    path = folder / "train.sh"
    path.write_text(f"torchrun --nproc_per_node 8 pretrain_gpt.py {' '.join(words)}\n")
    return str(path)


def ask(path: str, *options: str) -> Result:
    return CliRunner().invoke(plan.command, [path, *options], standalone_mode=False)


def memory(path: str) -> dict[str, float]:
    (launch,) = json.loads(ask(path, "--format", "json").stdout)["launches"]
    sizes: dict[str, float] = launch["plan"]["memory"]
    return sizes


def test_a_launch_that_fits(tmp_path: Path) -> None:
    done = ask(script(tmp_path))
    assert done.return_value == 0
    assert done.stdout.startswith("It fits: ")
    assert "Ascend910B3 assumed" in done.stdout
    assert len(done.stdout.splitlines()) <= 15


def test_a_launch_that_does_not_fit_is_told_what_would(tmp_path: Path) -> None:
    path = script(tmp_path, num_layers=80, hidden_size=8192, ffn_hidden_size=29568)
    done = ask(path)
    assert done.return_value == 1
    assert "It does not fit" in done.stdout
    assert "fits on 16 NPUs: " in done.stdout or "fits on 32 NPUs: " in done.stdout


def test_another_chip_has_another_memory(tmp_path: Path) -> None:
    path = script(tmp_path, num_layers=60, hidden_size=6144, ffn_hidden_size=16384)
    small, large = (ask(path, "--soc", chip, "--format", "json") for chip in ("910B4", "910B3"))
    sizes = [json.loads(done.stdout)["place"]["memory"] for done in (small, large)]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("part", "switches", "without", "options", "factor"),
    [
        # Without the distributed optimizer each rank has all states; DP is 2.
        ("optimizer", (), "use-distributed-optimizer", {"tensor_model_parallel_size": 4}, 2.0),
        ("gradients", ("fp16",), "bf16", {}, 0.5),
        ("optimizer", ("swap-optimizer",), "", {}, 0.0),
        ("gradients", (), "", {"lora_r": 8}, 0.00699),
    ],
)
def test_an_option_changes_its_part(
    tmp_path: Path,
    part: str,
    switches: tuple[str, ...],
    without: str,
    options: dict[str, Any],
    factor: float,
) -> None:
    tensor = options.get("tensor_model_parallel_size", 8)
    before = memory(script(tmp_path, tensor_model_parallel_size=tensor))[part]
    after = memory(script(tmp_path, *switches, without=without, **options))[part]
    assert after == pytest.approx(before * factor, rel=0.01)


def test_recomputation_is_counted_by_layers(tmp_path: Path) -> None:
    again = {"recompute_granularity": "full", "recompute_method": "block"}
    none = memory(script(tmp_path))["activations"]
    half = memory(script(tmp_path, **again, recompute_num_layers=16))["activations"]
    whole = memory(script(tmp_path, **again, recompute_num_layers=32))["activations"]
    assert none > half > whole
    assert half == pytest.approx((none + whole) / 2)


def test_scores_of_attention_are_counted_without_a_fused_kernel(tmp_path: Path) -> None:
    more = memory(script(tmp_path, without="use-flash-attn"))["activations"]
    scores = 32 * 4096**2 * 32 / 8 * 5
    assert more - memory(script(tmp_path))["activations"] == pytest.approx(scores)


def test_a_vocabulary_that_is_not_given_is_that_of_the_model_with_these_sizes(
    tmp_path: Path,
) -> None:
    done = ask(script(tmp_path, vocab_size=None))
    assert "assumed: a vocabulary of 32000" in done.stdout
    done = ask(script(tmp_path, vocab_size=None, hidden_size=4000, num_attention_heads=40))
    assert done.return_value == 3
    assert "could not tell" in " ".join(done.stdout.split())


def test_an_option_that_no_formula_knows_leaves_it_open(tmp_path: Path) -> None:
    done = ask(script(tmp_path, "no-pad-to-seq-lengths", micro_batch_size=32))
    assert done.return_value == 3
    assert "not counted: no_pad_to_seq_lengths" in done.stdout


def test_a_command_is_planned_as_a_script_is(tmp_path: Path) -> None:
    words = Path(script(tmp_path)).read_text().split()
    done = CliRunner().invoke(plan.command, ["--", *words], standalone_mode=False)
    assert done.stdout.splitlines()[0] == ask(script(tmp_path)).stdout.splitlines()[0]


def test_a_command_of_ms_swift_trains_by_its_name() -> None:
    words = ["megatron", "sft", "--model", "Qwen/Qwen3-30B-A3B"]
    assert "does not train" not in (shown := ask("--", *words).stdout)
    assert f"Next: ascend-doctor plan --run -- {' '.join(words)}\n" in shown
    words[1] = "export"
    assert "does not train" in ask("--", *words).stdout


def test_lint_warns_of_what_does_not_fit_and_is_sure_of_what_cannot(tmp_path: Path) -> None:
    def levels(path: str) -> list[str]:
        options = [path, "--only", "launch-memory", "--format", "json"]
        done = CliRunner().invoke(lint.command, options, standalone_mode=False)
        return [finding["level"] for finding in json.loads(done.stdout)["findings"]]

    assert levels(script(tmp_path)) == ["ok"]
    assert levels(script(tmp_path, micro_batch_size=28)) == ["warning"]
    assert levels(script(tmp_path, num_layers=80, hidden_size=8192)) == ["error"]
    # Other checks report the unknown size.
    assert levels(script(tmp_path, num_layers="$LAYERS")) == ["skipped"]
