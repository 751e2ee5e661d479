"""A layout in the words of the frameworks."""

from collections.abc import Callable

from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.ranking import RankedLayout
from ascend_doctor.planning.rules import LayoutQuery
from ascend_doctor.planning.weights import stages

# Each layer separately: the least memory, and what the estimate counts.
_RECOMPUTE = {
    "recompute_granularity": "full",
    "recompute_method": "uniform",
    "recompute_num_layers": "1",
}


def _sizes(asked: LayoutQuery, choice: RankedLayout) -> dict[str, str]:
    layout = choice.layout
    sizes = {
        "tensor_model_parallel_size": str(layout.tp),
        "pipeline_model_parallel_size": str(layout.pp),
        "context_parallel_size": str(layout.cp),
    }
    if asked.model.experts:
        sizes["expert_model_parallel_size"] = str(layout.ep)
        sizes["expert_tensor_parallel_size"] = str(layout.expert_tensor)
    last = len(stages(asked.model, layout)[-1])
    # Megatron itself takes only layers that all stages share alike.
    if layout.pp > 1 and last * layout.pp != asked.model.layers:
        sizes["decoder_last_pipeline_num_layers"] = str(last)
    return sizes


def megatron(asked: LayoutQuery, choice: RankedLayout) -> tuple[str, ...]:
    """Options of pretrain_gpt.py of Megatron-LM and MindSpeed-LLM.

    Source: NVIDIA/Megatron-LM@core_v0.15.3:megatron/training/arguments.py.
    """
    options = [*layout_options(asked, choice), "--use-distributed-optimizer", "--bf16"]
    options += ["--swap-optimizer"] if asked.run.swap else []
    return (*options, f"--seq-length {asked.run.sequence}")


def layout_options(asked: LayoutQuery, choice: RankedLayout) -> tuple[str, ...]:
    """Those of ``megatron`` by which layouts of one training differ."""
    sizes = _sizes(asked, choice) | (_RECOMPUTE if choice.memory.recompute else {})
    sizes["micro_batch_size"] = str(asked.run.micro_batch)
    options = [f"--{name.replace('_', '-')} {value}" for name, value in sizes.items()]
    return (*options, *["--sequence-parallel"] * (choice.layout.tp > 1))


def ms_swift(asked: LayoutQuery, choice: RankedLayout) -> tuple[str, ...]:
    """Options of ``megatron sft`` (modelscope/ms-swift@3602360a:swift/megatron/arguments)."""
    options = [f"--{name} {value}" for name, value in _sizes(asked, choice).items()]
    options += ["--sequence_parallel true"] if choice.layout.tp > 1 else []
    if choice.memory.recompute:
        options += [f"--{name} {value}" for name, value in _RECOMPUTE.items()]
    if asked.run.lora:
        options += ["--tuner_type lora", f"--lora_rank {asked.run.lora}"]
    options += [f"--max_length {asked.run.sequence}", f"--micro_batch_size {asked.run.micro_batch}"]
    return tuple(options)


def twinkle(asked: LayoutQuery, choice: RankedLayout) -> tuple[str, ...]:
    """The mesh of a Megatron model.

    Source: modelscope/twinkle@1a1d8845:src/twinkle/utils/device_mesh.py.
    """
    layout = choice.layout
    sizes = {"dp": layout.dp, "tp": layout.tp, "pp": layout.pp, "cp": layout.cp}
    if asked.model.experts:
        sizes |= {"ep": layout.ep, "etp": layout.expert_tensor}
    words = ", ".join(f"{name}_size={size}" for name, size in sizes.items())
    parallel = ", sequence_parallel=True" if layout.tp > 1 else ""
    return (f'DeviceMesh.from_sizes({words}, device_type="npu"{parallel})',)


def verl(asked: LayoutQuery, choice: RankedLayout) -> tuple[str, ...]:
    """Overrides for the actor (verl-project/verl@1dda039b:verl/trainer/config/engine)."""
    where = "actor_rollout_ref.actor.megatron"
    sizes = _sizes(asked, choice)
    uneven = sizes.pop("decoder_last_pipeline_num_layers", None)
    options = [f"{where}.{name}={value}" for name, value in sizes.items()]
    inside = f"+{where}.override_transformer_config"
    if uneven:
        options.append(f"{inside}.num_layers_in_last_pipeline_stage={uneven}")
    if choice.memory.recompute:
        options += [f"{inside}.{name}={value}" for name, value in _RECOMPUTE.items()]
    options += [f"actor_rollout_ref.model.lora_rank={asked.run.lora}"] if asked.run.lora else []
    return (*options, "trainer.device=npu")


FRAMEWORKS: dict[str, Callable[[LayoutQuery, RankedLayout], tuple[str, ...]]] = {
    "megatron": megatron,
    "ms-swift": ms_swift,
    "twinkle": twinkle,
    "verl": verl,
}


def describe_sizes(layout: Layout) -> str:
    return f"DP{layout.dp}, expert DP{layout.edp}, ETP{layout.expert_tensor}"
