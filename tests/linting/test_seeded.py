"""Mistakes in correct launches: each is found at its line, and nothing else."""

from pathlib import Path

import pytest
import yaml

from ascend_doctor.findings import Finding, Level
from tests.linting.judged import judge_text

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
    algorithm.adv_estimator=grpo actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True \\
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
                    --num-layers 8 --num-attention-heads 16 --seq-length 8 --micro-batch-size 1 \\
                    --max-position-embeddings 8 --bf16
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

ROWS = yaml.safe_load(Path(__file__).with_name("seeded.yaml").read_text("utf-8"))
MISTAKES = [tuple(row) for row in ROWS]


def lint_content(name: str, content: str) -> list[Finding]:
    """Errors and warnings for Megatron-LM 0.12.1 on Atlas A2."""
    judged = judge_text(name, content, "0.12.1", "Ascend910B3")
    assert judged
    return [finding for finding in judged if finding.level > Level.SKIPPED]


@pytest.mark.parametrize("name", FILES)
def test_correct_launches_have_no_findings(name: str) -> None:
    ids = [finding.check for finding in lint_content(name, FILES[name])]
    # A configuration does not give all keys.
    assert ids == (["launch-resolved"] if name == "verl.yaml" else [])


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
