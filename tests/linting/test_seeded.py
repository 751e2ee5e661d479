"""Mistakes that were put into correct launches: each is found at its line, and nothing else is."""

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits, unique
from ascend_doctor.matrix.catalog import Catalog

CATALOG = Catalog()

MEGATRON = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
export HCCL_CONNECT_TIMEOUT=1200
export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
export PYTHONPATH=/src/Megatron-LM:$PYTHONPATH
NPUS=8
NNODES=2
NODE_RANK=1
TP=2
PP=2
EP=4
DISTRIBUTED="
    --nproc_per_node $NPUS \\
    --nnodes ${NNODES} \\
    --node_rank $NODE_RANK
"
MODEL="
    --num-layers 48
    --hidden-size 2048
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 4
    --seq-length 4096
    --max-position-embeddings 4096
"
MOE=(
    --num-experts 128
    --moe-router-topk 8
    --expert-model-parallel-size $EP
    --expert-tensor-parallel-size 1
)
torchrun $DISTRIBUTED pretrain_gpt.py \\
    $MODEL \\
    "${MOE[@]}" \\
    --tensor-model-parallel-size ${TP} \\
    --pipeline-model-parallel-size ${PP} \\
    --context-parallel-size 1 \\
    --sequence-parallel \\
    --micro-batch-size 1 \\
    --global-batch-size 64 \\
    --recompute-granularity full \\
    --recompute-method uniform \\
    --recompute-num-layers 1 \\
    --use-distributed-optimizer \\
    --overlap-grad-reduce \\
    --overlap-param-gather \\
    --bf16
"""

SWIFT = """export USE_MCORE_GDN=0
export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
export TASK_QUEUE_ENABLE=2
ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \\
NPROC_PER_NODE=8 \\
megatron sft \\
    --model Qwen/Qwen3.5-35B-A3B \\
    --tuner_type lora \\
    --tensor_model_parallel_size 2 \\
    --expert_model_parallel_size 4 \\
    --expert_tensor_parallel_size 1 \\
    --context_parallel_size 1 \\
    --sequence_parallel true \\
    --packing false \\
    --micro_batch_size 1 \\
    --global_batch_size 16 \\
    --max_length 4096
"""

VERL = """set -x
export HCCL_EXEC_TIMEOUT=1200
tp=${TP:-2}
ACTOR=(
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=${tp}
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=1
    actor_rollout_ref.actor.megatron.expert_model_parallel_size=8
    actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1
    actor_rollout_ref.actor.router_replay.mode=disabled
)
python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer \\
    "${ACTOR[@]}" \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=4 \\
    actor_rollout_ref.rollout.checkpoint_engine.backend=nccl \\
    trainer.device=npu \\
    trainer.nnodes=1 \\
    trainer.n_gpus_per_node=16
"""

VERL_YAML = """actor_rollout_ref:
  actor:
    megatron:
      tensor_model_parallel_size: 2
      pipeline_model_parallel_size: 1
      context_parallel_size: 1
      expert_model_parallel_size: 8
      expert_tensor_parallel_size: 1
  rollout:
    tensor_model_parallel_size: 4
    checkpoint_engine:
      backend: nccl
trainer:
  device: npu
  nnodes: 1
  n_gpus_per_node: 16
"""

POD = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  tasks:
    - template:
        spec:
          containers:
            - name: train
              env:
                - name: HCCL_CONNECT_TIMEOUT
                  value: "600"
                - name: ASCEND_RT_VISIBLE_DEVICES
                  value: "0,1,2,3"
              command: [bash, -c]
              args:
                - |
                  cd /job
                  torchrun --nproc_per_node 4 pretrain_gpt.py \\
                    --tensor-model-parallel-size 2 \\
                    --num-layers 8 --num-attention-heads 16 --bf16
"""

ENTRY = """import os
import torch
import torch_npu
import mindspeed.megatron_adaptor
from megatron.core import parallel_state
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("hccl")
group = torch.distributed.new_group([0], backend="gloo")
config = OptimizerConfig(lr=1e-4)
optimizer = get_megatron_optimizer(config, [])
"""

FILES = {
    "megatron.sh": MEGATRON,
    "swift.sh": SWIFT,
    "verl.sh": VERL,
    "verl.yaml": VERL_YAML,
    "pod.yaml": POD,
    "entry.py": ENTRY,
}

# File, what stands there, what is put there instead, the check; found on the line of the latter,
# or on the line that has the word behind "@".
MISTAKES = [
    ("megatron.sh", "TP=2", "TP=3", "run-world-size", "TP="),
    ("megatron.sh", "PP=2", "PP=5", "run-world-size", ""),
    ("megatron.sh", "NPUS=8", "NPUS=6", "run-batch-divides", "--global-batch-size"),
    ("megatron.sh", "size $EP", "size 16", "run-world-size", ""),
    ("megatron.sh", "parallel-size 1 \\", "parallel-size 3 \\", "run-world-size", ""),
    ("megatron.sh", "NODE_RANK=1", "NODE_RANK=2", "run-node-rank", "NODE_RANK="),
    ("megatron.sh", "num-experts 128", "num-experts 126", "run-experts-divide", "EP="),
    ("megatron.sh", "topk 8", "topk 200", "run-experts-divide", ""),
    ("megatron.sh", "--num-experts 128", "", "run-experts-divide", "EP="),
    ("megatron.sh", "heads 32", "heads 31", "run-heads-divide", ""),
    ("megatron.sh", "groups 4", "groups 3", "run-heads-divide", "--num-query-groups"),
    ("megatron.sh", "size 2048", "size 2050", "run-heads-divide", "--num-attention-heads"),
    ("megatron.sh", "layers 48", "layers 47", "run-layers-divide", "PP="),
    ("megatron.sh", "length 4096", "length 4095", "run-sequence-divides", ""),
    ("megatron.sh", "embeddings 4096", "embeddings 2048", "run-sequence-divides", ""),
    ("megatron.sh", "batch-size 64", "batch-size 63", "run-batch-divides", ""),
    ("megatron.sh", "micro-batch-size 1", "micro-batch-size 3", "run-batch-divides", "--global-b"),
    ("megatron.sh", "    --sequence-parallel \\\n", "", "run-moe-needs-sp", "--num-experts"),
    ("megatron.sh", "granularity full", "granularity ful", "run-recompute", ""),
    ("megatron.sh", "granularity full", "granularity selective", "run-recompute", "-method"),
    ("megatron.sh", "    --recompute-method uniform \\\n", "", "run-recompute", "-granularity"),
    ("megatron.sh", "--bf16", "--bf16 --fp8-format hybrid", "fp8-on-a2-a3", ""),
    ("megatron.sh", "--num-layers 48", "--num-layer 48", "run-flags-known", ""),
    (
        "megatron.sh",
        "--bf16",
        "--bf16 --no-async-tensor-model-parallel-allreduc",
        "run-flags-known",
        "",
    ),
    (
        "megatron.sh",
        "--bf16",
        "--bf16 --moe-router-padding-for-quantization",
        "run-flags-known",
        "",
    ),
    ("megatron.sh", "PP=2", "PP=1", "", ""),
    ("megatron.sh", "TIMEOUT=1200", "TIMEOUT=60", "variables-valid", ""),
    ("megatron.sh", "TIMEOUT=1200", 'TIMEOUT="1200 "', "variables-valid", ""),
    ("megatron.sh", "DEVICES=0,1,2", "DEVICES=1,0,2", "visible-devices", ""),
    ("megatron.sh", "DEVICES=0,1,2", "DEVICES='0, 1,2'", "visible-devices", ""),
    ("megatron.sh", "6,7", "6,6", "visible-devices", ""),
    ("megatron.sh", "6,7", "6", "run-visible-devices", ""),
    (
        "megatron.sh",
        "/src/Megatron-LM:$PYTHONPATH",
        "$PYTHONPATH:/src/Megatron-LM",
        "pythonpath-prepended",
        "",
    ),
    ("megatron.sh", "HCCL_CONNECT_TIMEOUT", "HCCL_CONN_TIMEOUT", "variables-misspelt", ""),
    ("megatron.sh", "LM:$PYTHONPATH", "LM:", "pythonpath-prepended", ""),
    ("megatron.sh", "LM:$PYTHONPATH", "LM${PYTHONPATH:+:$PYTHONPATH}", "", ""),
    ("megatron.sh", "export HCCL", "export ASCEND_LAUNCH_BLOCKING=1 HCCL", "variables-harmful", ""),
    ("megatron.sh", "export HCCL", "HCCL", "variables-exported", ""),
    ("swift.sh", "tensor_parallel_size 1", "tensor_parallel_size 2", "lora-etp", ""),
    ("swift.sh", "context_parallel_size 1", "context_parallel_size 2", "gdn-zero-with-cp", ""),
    ("swift.sh", "packing false", "packing true", "run-gdn-packing", ""),
    ("swift.sh", "model_parallel_size 4", "model_parallel_size 3", "run-world-size", ""),
    ("swift.sh", "batch_size 16", "batch_size 18", "run-batch-divides", ""),
    (
        "swift.sh",
        "expert_model_parallel_size 4",
        "expert_model_parallel_size 4 --num_experts 1024",
        "ep-expert-cap",
        "",
    ),
    ("swift.sh", "segments:True", "segments:True,max_split_size_mb:128", "variables-allocator", ""),
    ("swift.sh", "ENABLE=2", "ENABLE=7", "variables-valid", ""),
    ("swift.sh", "NPROC_PER_NODE=8", "NPROC_PER_NODE=16", "run-visible-devices", "VISIBLE"),
    ("verl.sh", "backend=nccl", "backend=hccl", "verl-on-npu", ""),
    ("verl.sh", "device=npu", "device=cuda", "verl-on-npu", ""),
    ("verl.sh", "mode=disabled", "mode=R3", "verl-on-npu", ""),
    ("verl.sh", "TP:-2", "TP:-3", "run-world-size", ""),
    (
        "verl.sh",
        "expert_model_parallel_size=8",
        "expert_model_parallel_size=7",
        "run-world-size",
        "",
    ),
    ("verl.sh", "EXEC_TIMEOUT=1200", "EXEC_TIMEOUT=20min", "variables-valid", ""),
    ("verl.yaml", "backend: nccl", "backend: hccl", "verl-on-npu", ""),
    (
        "verl.yaml",
        "tensor_model_parallel_size: 2",
        "tensor_model_parallel_size: 5",
        "run-world-size",
        "",
    ),
    ("pod.yaml", '"600"', '"60"', "variables-valid", "HCCL_CONNECT_TIMEOUT"),
    ("pod.yaml", '"0,1,2,3"', '"0-3"', "visible-devices", "ASCEND_RT_VISIBLE_DEVICES"),
    (
        "pod.yaml",
        "--num-attention-heads 16",
        "--num-attention-heads 15",
        "run-heads-divide",
        "",
    ),
    ("pod.yaml", "parallel-size 2", "parallel-size 3", "run-world-size", ""),
    (
        "entry.py",
        "import mindspeed.megatron_adaptor\nfrom megatron.core import parallel_state",
        "from megatron.core import parallel_state\nimport mindspeed.megatron_adaptor",
        "entry-import-order",
        "import parallel_state",
    ),
    ("entry.py", 'int(os.environ["LOCAL_RANK"])', "0", "entry-set-device", ""),
    ("entry.py", "lr=1e-4", "lr=1e-4, overlap_param_gather=True", "entry-optimizer-config", ""),
    ("entry.py", "config, []", "config, [], config_overrides={}", "entry-optimizer-config", ""),
    (
        "entry.py",
        '"hccl"',
        '"hccl", device_id=torch.device("npu:0")',
        "entry-gloo-bound-device",
        "",
    ),
]


def lint_content(name: str, content: str) -> list[Finding]:
    """Errors and warnings for Megatron-LM 0.12.1 on Atlas A2."""
    base = machine("0.12.1", "Ascend910B3")
    chosen = [check for check in all_checks() if suits(check)]
    lint_inputs = subjects(name, content.encode(), CATALOG)
    assert lint_inputs
    judged = unique(
        tuple(finding for each in lint_inputs for finding in findings(each, base, CATALOG, chosen))
    )
    return [
        finding
        for finding in judged
        if finding.level in {Level.ERROR, Level.WARNING, Level.UNKNOWN}
    ]


@pytest.mark.parametrize("name", FILES)
def test_correct_launches_have_no_findings(name: str) -> None:
    ids = [finding.check for finding in lint_content(name, FILES[name])]
    # A configuration does not give all keys.
    assert ids == (["launch-resolved"] if name == "verl.yaml" else [])


def test_there_are_enough_mistakes() -> None:
    assert len([mistake for mistake in MISTAKES if mistake[3]]) >= 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "right", "wrong", "check", "where"), MISTAKES, ids=lambda value: str(value)[:30]
)
def test_a_mistake_is_found_at_its_line(
    name: str, right: str, wrong: str, check: str, where: str
) -> None:
    content = FILES[name]
    assert right in content
    changed = content.replace(right, wrong, 1)
    line = 1 + next(
        number
        for number, text in enumerate(changed.split("\n"))
        if (where or wrong.split("\n", maxsplit=1)[0]) in text
    )
    findings = lint_content(name, changed)
    if not check:
        assert findings == []
        return
    places = [
        (finding.check, finding.location.line if finding.location else 0) for finding in findings
    ]
    assert (check, line) in places
    # A size that divides nothing is wrong in several ways.
    assert len(places) <= 3


SOURCES = (
    "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
    ". /usr/local/Ascend/cann/set_env.sh && source ${HOME}/venv/bin/activate",
    "source <(ascend-doctor env --prefix ~/stack)",
)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_sourced_environment_hides_no_mistake(source: str) -> None:
    for name, right, wrong, check, _ in MISTAKES:
        if name.endswith(".sh"):
            first, rest = FILES[name].replace(right, wrong, 1).split("\n", 1)
            below = {
                (finding.check, finding.location and finding.location.line)
                for finding in lint_content(name, first + "\n" + rest)
            }
            moved = lint_content(name, f"{first}\n{source}\n{rest}")
            assert {
                (finding.check, finding.location and finding.location.line - 1) for finding in moved
            } == below, check
