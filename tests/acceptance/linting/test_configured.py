"""Mistakes in real launches that configuration files complete."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ascend_doctor.commands.rehearsal import prepare
from ascend_doctor.findings import Level
from ascend_doctor.linting.exact import ask, split_launches
from ascend_doctor.linting.inputs import LintInput, subjects
from ascend_doctor.linting.shellcheck import run_shellcheck
from ascend_doctor.simulator import machine as simulated
from tests.acceptance import clones, needs
from tests.linting.judged import CATALOG, judge_inputs, mistakes


class Launch(NamedTuple):
    repository: str
    commit: str
    script: str
    config: str


SWIFT, FACTORY = ("modelscope/ms-swift", "3602360a"), ("hiyouga/LLaMA-Factory", "ff6d4d12")
FSDP = Launch(
    *FACTORY, "examples/extras/fsdp_qlora/train.sh", "examples/accelerate/fsdp_config.yaml"
)
LORA = Launch(
    *SWIFT,
    "examples/ascend/train/qwen3/qwen3_lora_fsdp/train.sh",
    "examples/ascend/train/qwen3/qwen3_lora_fsdp/fsdp.json",
)
NODES = Launch(
    *SWIFT,
    "examples/train/multi-node/accelerate/train_node1.sh",
    "examples/train/multi-node/accelerate/multi_node.yaml",
)
QLORA = Launch(
    *SWIFT,
    "examples/train/multi-gpu/fsdp_qlora/train.sh",
    "examples/train/multi-gpu/fsdp_qlora/fsdp_offload.json",
)
# Kinds from huggingface/accelerate@v1.10.1 (commands/launch.py, commands/config/config_args.py,
# utils/launch.py), labelled before the first run, 2026-11-29.
IN_CONFIG = (
    (FSDP, "distributed_type: FSDP", "distributed_type: FSDP2"),
    (FSDP, "mixed_precision: bf16 ", "mixed_precision: bfloat16 "),
    (FSDP, "fsdp_sync_module_states: true", "fsdp_sync_module_states: false"),
    (FSDP, "num_machines: 1", "num_nodes: 1"),
    (FSDP, "same_network: true", "same_networks: true"),
    (FSDP, "num_processes: 2", "num_processes: two"),
    (LORA, '"compute_environment": "LOCAL_MACHINE"', '"compute_environment": "LOCAL"'),
    (LORA, '"use_cpu": false,', '"use_cpu": false'),
    (NODES, "num_processes: 8", "num_processes: -1"),
    (NODES, "mixed_precision: bf16", "mixed_precision: bf"),
)
IN_COMMAND = (
    (NODES, "--machine_rank 0", "--machine_rank first"),
    (NODES, "--machine_rank 0", "--machine_rank 0 --mixed_precision bfloat16"),
    (FSDP, "accelerate launch", "accelerate launch --multi_gpu --use_fsdp"),
    (LORA, "accelerate launch", "accelerate launch --num_process eight"),
    (FSDP, "accelerate launch", "accelerate launch --module --no_python"),
    (FSDP, "accelerate launch", "accelerate launch --nproc_per_node 8"),
    (QLORA, "accelerate launch --config", "accelerate launch --dynamo_backend inductor_ --config"),
    (QLORA, "accelerate launch --config", "accelerate launch --fsdp_version 3 --config"),
    (FSDP, "accelerate launch", "accelerate launch --use_parallelism_config true"),
    (LORA, "accelerate launch", "accelerate launch --multi_gpu --gpu_ids 0"),
)

SFT, DPO, TEXT, FULL = (
    Launch(*FACTORY, "train.sh", f"examples/{name}.yaml")
    for name in (
        *("train_lora/qwen3_lora_sft", "train_lora/qwen3_lora_dpo"),
        *("train_lora/qwen3_lora_pretrain", "ascend/qwen3_full_sft_fsdp2"),
    )
)
# Kinds from hiyouga/LLaMA-Factory@ff6d4d12:src/llamafactory/hparams and
# huggingface/transformers@v4.57.1, labelled before the first run, 2026-11-29.
OF_FACTORY = (
    (SFT, "finetuning_type: lora", "finetuning_type: loraa"),
    (SFT, "stage: sft", "stage: sf"),
    (SFT, "lora_rank: 8", "lora_ranks: 8"),
    (SFT, "max_samples: 1000", "streaming: true"),
    (SFT, "lr_scheduler_type: cosine", "lr_scheduler_type: cosin"),
    (SFT, "ddp_timeout: 180000000", "fp16: true"),
    (SFT, "warmup_ratio: 0.1", "warmup_ratio: 1.5"),
    (DPO, "resume_from_checkpoint: null", "predict_with_generate: true"),
    (DPO, "template: qwen3_nothink", "neat_packing: true"),
    (SFT, "lora_target: all", "use_galore: true"),
    (FULL, "flash_attn: fa2", "use_dora: true"),
    (SFT, "dataset: identity,alpaca_en_demo", "val_size: 0.1"),
    (SFT, "plot_loss: true", "load_best_model_at_end: true"),
    (SFT, "logging_steps: 10", "eval_strategy: step"),
    (SFT, "save_steps: 500", "save_strategy: epochs"),
    (SFT, "report_to: none ", "optim: adamw_torchh "),
    (TEXT, "dataset: c4_demo", "train_on_prompt: true"),
    (FULL, "use_v1_kernels: true", "quantization_bit: 4"),
    (SFT, "overwrite_output_dir: true", "interleave_probs: 0.5,0.5"),
)


class Mistake(NamedTuple):
    """``label`` is "" for none."""

    script: Path
    file: str
    lines: range
    label: str


def write(folder: Path, launch: Launch, file: str, old: str, new: str) -> Mistake:
    own = launch.script == "train.sh"
    names = (launch.config,) if own else (launch.script, launch.config)
    clones.unpack(folder, launch.repository, launch.commit, *names)
    script, path = folder / launch.script, folder / file
    if own:
        script.write_text(f"llamafactory-cli train {launch.config}\n")
    lines = path.read_text().split("\n")
    number = next((at for at, line in enumerate(lines) if old and old in line), -1)
    lines[number] = lines[number].replace(old, new)
    path.write_text("\n".join(lines))
    return Mistake(script, str(path), range(number + 1, number + 2), new)


def ask_all(folder: Path, rows: Iterable[Mistake], sources: Iterable[Path]) -> tuple[int, int]:
    """Mistakes refused at their line, and refusals without one."""
    python = needs.first_path("training-python")
    env = dict(prepare(None, python, simulated("a2-8"), ()).env)
    path = ":".join([*map(str, sources), env["PYTHONPATH"]])
    env |= {"PYTHONPATH": path, "DISABLE_VERSION_CHECK": "1"}
    rows, inputs, sizes = [*rows], list[LintInput](), []
    for row in rows:
        read = [*subjects(str(row.script), row.script.read_bytes(), CATALOG, run_shellcheck)]
        sizes.append(len(read))
        inputs += read
    answers = iter(ask(inputs, split_launches(inputs), python, env, folder, 1800.0))
    hits = false = 0
    for row, size in zip(rows, sizes, strict=True):
        reported = mistakes(judge_inputs([next(answers) for _ in range(size)]))
        refused = [each for each in reported if each.check.startswith("run-framework")]
        errors = [each for each in reported if each.level is Level.ERROR]
        spots = [each.location for each in errors if each.location]
        hit = any(spot.file == row.file and spot.line in row.lines for spot in spots)
        hits += bool(row.label) and hit
        false += 0 if row.label else len(refused)
        print(hit, row.script, row.label, [each.title for each in errors])  # noqa: T201
    print("hits", hits, "of", len(rows), "false", false)  # noqa: T201
    return hits, false


def judge(folder: Path, rows: list[tuple[tuple[Launch, str, str], str]]) -> tuple[int, int]:
    source = clones.unpack(folder / "factory", *FACTORY, "src")
    numbered = enumerate(rows)
    placed = (write(folder / str(n), row[0], name, *row[1:]) for n, (row, name) in numbered)
    return ask_all(folder, placed, [source / "src"])


def test_accelerate_refuses_at_the_line(tmp_path: Path) -> None:
    rows = [(each, each[0].config) for each in IN_CONFIG]
    rows += [(each, each[0].script) for each in IN_COMMAND]
    rows += [((each, "", ""), each.script) for each in (FSDP, LORA, NODES, QLORA)]
    hits, false = judge(tmp_path, rows)
    assert hits >= 16
    assert not false


def test_llama_factory_refuses_at_the_line(tmp_path: Path) -> None:
    rows = [(each, each[0].config) for each in OF_FACTORY]
    rows += [((each, "", ""), each.config) for each in (SFT, DPO, TEXT, FULL)]
    hits, false = judge(tmp_path, rows)
    assert hits >= 14
    assert not false
