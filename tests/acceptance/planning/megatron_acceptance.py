"""Whether a checkout of Megatron-LM takes the arguments of launches, each with its number of ranks.

Arguments: the folder of the checkout, and that of the probes. Input: a list of {ranks, words}. Each
goes through Megatron's parser, validate_args, the configuration of the model, and
initialize_model_parallel over the fake backend. Answers: "" or why it is refused, a case each.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import sys
import types
from typing import Any
from unittest import mock

sys.path.append(sys.argv[2])

import _cuda_on_cpu  # type: ignore[import-not-found]

sys.path.remove(sys.argv[2])  # its modules are named after what they probe
sys.path.insert(0, sys.argv[1])

import torch

_cuda_on_cpu.install("cpu", torch)
torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=8, minor=0)
# Triton kernels, which Megatron-LM 0.16 defines at import; none runs here.
_KERNELS = "megatron.core.transformer.custom_layers.batch_invariant_kernels"
if importlib.util.find_spec("triton") is None:
    sys.modules[_KERNELS] = mock.MagicMock()

dist = importlib.import_module("torch.distributed")
fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")
parallel_state = importlib.import_module("megatron.core.parallel_state")
arguments = importlib.import_module("megatron.training.arguments")
assert str(arguments.__file__).startswith(os.path.realpath(sys.argv[1]))
_cuda_on_cpu.after_import(torch)


def accept(ranks: int, words: list[str]) -> None:
    """Raises what Megatron raises."""
    os.environ |= {"WORLD_SIZE": str(ranks), "RANK": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    sys.argv = ["pretrain_gpt.py", *words]
    settings = arguments.validate_args(arguments.parse_args())
    arguments.core_transformer_config_from_args(settings)
    dist.init_process_group("fake", rank=0, world_size=ranks, store=fake.FakeStore())
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=settings.tensor_model_parallel_size,
        pipeline_model_parallel_size=settings.pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size=settings.virtual_pipeline_model_parallel_size,
        context_parallel_size=settings.context_parallel_size,
        expert_model_parallel_size=settings.expert_model_parallel_size,
        expert_tensor_parallel_size=settings.expert_tensor_parallel_size,
        create_gloo_process_groups=False,
    )


def answer(case: dict[str, Any]) -> str:
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            accept(case["ranks"], case["words"])
    except (Exception, SystemExit) as reason:  # noqa: BLE001 - whatever Megatron refuses with
        last = (output.getvalue().strip().splitlines() or [""])[-1]
        return f"{type(reason).__name__}: {reason} {last}"[:300]
    finally:
        parallel_state.destroy_model_parallel()
        if dist.is_initialized():
            dist.destroy_process_group()
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps([answer(case) for case in json.load(sys.stdin)]) + "\n")
