"""Valid files of every kind that the doctor reads: what is broken in the other modules."""

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from ascend_doctor.provision import lock as locks
from ascend_doctor.render.formats.json import render
from tests.diagnosis.logs import catalog
from tests.fleet.nodes import node
from tests.machines.compose import build
from tests.provision.test_lock import LOCK

SCRIPT = """\
source /usr/local/Ascend/ascend-toolkit/set_env.sh
export HCCL_CONNECT_TIMEOUT=600 HCCL_IF_BASE_PORT=60000
GPUS=${NPROC:-8}
ARGS="--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 24"
torchrun --nproc_per_node $GPUS --nnodes 2 --master_addr 10.0.0.1 pretrain_gpt.py $ARGS \\
  --micro-batch-size 1 --global-batch-size 16 --seq-length 4096 --use-flash-attn
"""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "annotations": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "example.org/train:1",
                "command": ["torchrun"],
                "args": ["--nproc_per_node", "8", "train.py", "--bf16"],
                "env": [{"name": "HCCL_CONNECT_TIMEOUT", "value": "600"}],
                "resources": {"limits": {"huawei.com/Ascend910": 8}},
            }
        ]
    },
}
ENTRY = "import torch\nimport torch_npu\nimport mindspeed.megatron_adaptor\nimport megatron.core\n"
MODEL = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
SETTINGS = {"acknowledged": [{"id": "npu-memory", "reason": "known", "expires": "2030-01-01"}]}
FAILURE = {
    "id": "own-failure",
    "title": "Own",
    "severity": "fatal",
    "matches": ["own error"],
    "example": "own error 7",
    "basis": "log",
    "cause": "c",
    "fix": "f",
    "sources": ["https://example.org"],
}
FAILURES = {"schema": 1, "failures": [FAILURE]}
STACK = {
    "schema": 1,
    "id": "our-site",
    "title": "What we run",
    "status": "verified",
    "components": {"megatron-lm": "==core_v0.15.3", "cann": "==9.0.1"},
    "sources": [{"url": "https://wiki.example.com/stack", "date": "2026-11-01"}],
}


def report() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        render(node("n1", variables={"MASTER_ADDR": "10.0.0.1"}, address="10.0.0.9", figure=3.0))
    )
    return loaded


def lock(folder: Path) -> dict[str, Any]:
    locks.write(folder / locks.FILE, LOCK)
    loaded: dict[str, Any] = yaml.safe_load((folder / locks.FILE).read_text())
    return loaded


def log() -> bytes:
    examples = [failure.example for failure in catalog().failures.values()]
    return "\n".join(f"[rank{n % 8}]: {text}" for n, text in enumerate(examples[:60])).encode()


def machine(folder: Path) -> dict[str, Any]:
    build("healthy-a2", folder)
    loaded: dict[str, Any] = yaml.safe_load((folder / "machine.yaml").read_text())
    return loaded


def sums(folder: Path) -> bytes:
    """SHA256SUMS of a lock's bundle, whose other files are made."""
    names = [locks.FILE, *(f"wheels/{wheel.file}" for wheel in LOCK.wheels)]
    names += [f"git/{checkout.name}.bundle" for checkout in LOCK.checkouts]
    for name in names[1:]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("content")
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in names
    ]
    return "\n".join(lines).encode()
