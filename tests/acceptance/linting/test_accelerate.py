"""Mistakes that accelerate refuses, in real launches and in their configuration files."""

from pathlib import Path
from typing import NamedTuple

from ascend_doctor.commands.rehearsal import prepare
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
# utils/launch.py), labelled before the first run, 2026-11-29. The changed line has the mistake.
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
    (QLORA, "accelerate launch", "accelerate launch --dynamo_backend inductor_"),
    (QLORA, "accelerate launch", "accelerate launch --fsdp_version 3"),
    (FSDP, "accelerate launch", "accelerate launch --use_parallelism_config true"),
    (LORA, "accelerate launch", "accelerate launch --multi_gpu --gpu_ids 0"),
)


def write(folder: Path, launch: Launch, file: str, old: str, new: str) -> tuple[str, int]:
    """The launch with a mistake, and the file and the line that have it."""
    names = (launch.script, launch.config)
    clones.unpack(folder, launch.repository, launch.commit, *names)
    path = folder / file
    lines = path.read_text().split("\n")
    number = next((at for at, line in enumerate(lines) if old and old in line), -1)
    lines[number] = lines[number].replace(old, new)
    path.write_text("\n".join(lines))
    return str(path), number + 1


def test_accelerate_refuses_at_the_line(tmp_path: Path) -> None:
    python = needs.first_path("training-python")
    env = dict(prepare(None, python, simulated("a2-8"), ()).env)
    rows = [(each, each[0].config) for each in IN_CONFIG]
    rows += [(each, each[0].script) for each in IN_COMMAND]
    rows += [((each, "", ""), each.script) for each in (FSDP, LORA, NODES, QLORA)]
    places, inputs, sizes = [], list[LintInput](), []
    for number, ((launch, old, new), file) in enumerate(rows):
        folder = tmp_path / str(number)
        places.append(write(folder, launch, file, old, new))
        script = folder / launch.script
        read = [*subjects(str(script), script.read_bytes(), CATALOG, run_shellcheck)]
        sizes.append(len(read))
        inputs += read
    answers = iter(ask(inputs, split_launches(inputs), python, env, tmp_path, 600.0))
    hits = false = 0
    for (row, _), place, size in zip(rows, places, sizes, strict=True):
        reported = mistakes(judge_inputs([next(answers) for _ in range(size)]))
        refused = [each for each in reported if each.check.startswith("run-framework")]
        told = {(each.location.file, each.location.line) for each in refused if each.location}
        hits += bool(row[1]) and place in told
        false += 0 if row[1] else len(refused)
        print(place in told, row[1:], place[1], told)  # noqa: T201
    print("hits", hits, "false", false)  # noqa: T201
    assert hits >= 16
    assert not false
