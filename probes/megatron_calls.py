"""Calls parts of the real megatron.core in one process, where the answer is known.

``schedule``: which plans of steps and warm-up Megatron's scheduler takes. ``collected``: which
ranks hold the results of a batch; with tensor and pipeline parallelism every rank of a model has
the same ones, and collecting all of them multiplies the samples. Group members are the real ones,
over a backend that moves nothing. ``peft``: what peft's own layers for Megatron do, where peft is
installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

import _megatron
import _probe
from _members import pretend
from _probe import Probe

MANIFEST = {
    "order": 60,
    "level": 1,
    "seconds": 120,
    "seconds_cpu": 90,
    "needs": ["mindspeed-patches"],
    "forked": True,
    "does": "plans of the scheduler, who holds the samples of a batch, peft's own layers",
    "on_cpu": "with megatron-core",
}

# Steps of decay and of warm-up.
PLANS = ((0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (10, 1))
WORLD = 4
LAYOUTS = ({"tp": 2, "pp": 1}, {"tp": 2, "pp": 2}, {"tp": 1, "pp": 1})
SAMPLES = 3


def body(probe: Probe) -> None:
    """What the megatron.core of this environment answers to small questions."""
    if not _megatron.find_installed():
        probe.skip(_megatron.ABSENT)
    with probe.stage("import"):
        torch = _probe.import_torch(probe.device)
    _megatron.load(probe, torch)
    with probe.stage("schedule"):
        for decay, warmup in PLANS:
            taken = takes(torch, decay, warmup)
            probe.measure(f"decay {decay} warm-up {warmup}", taken)
            # Its own assertions: lr_decay_steps > 0 and lr_warmup_steps < lr_decay_steps.
            allowed = decay > 0 and warmup < decay
            probe.expect(f"a plan of {decay} steps with {warmup} of warm-up", taken, allowed)
    with probe.stage("collected"):
        for layout in LAYOUTS:
            collect(probe, torch, **layout)
    with probe.stage("peft"):
        if importlib.util.find_spec("peft"):
            probe.measure("peft", stock_peft(torch))


def takes(torch: Any, decay: int, warmup: int) -> bool:
    """Whether Megatron's scheduler takes a plan; it asserts."""
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    weight = torch.nn.Parameter(torch.zeros(1))
    try:
        OptimizerParamScheduler(
            torch.optim.SGD([weight], lr=0.1),
            init_lr=0.0,
            max_lr=0.1,
            min_lr=0.0,
            lr_warmup_steps=warmup,
            lr_decay_steps=decay,
            lr_decay_style="linear",
            start_wd=0.0,
            end_wd=0.0,
            wd_incr_steps=1,
            wd_incr_style="constant",
        )
    except AssertionError:
        return False
    return True


def collect(probe: Probe, torch: Any, *, tp: int, pp: int) -> None:
    """Samples from the first rank of each model against samples from all ranks."""
    from megatron.core import parallel_state

    first, everyone = [], []
    for rank in range(WORLD):
        pretend(torch, rank, WORLD)
        parallel_state.initialize_model_parallel(tp, pp, create_gloo_process_groups=False)
        data = parallel_state.get_data_parallel_rank()
        samples = [f"{data}.{number}" for number in range(SAMPLES)]
        everyone += samples
        sample_of = (
            parallel_state.get_tensor_model_parallel_rank(),
            parallel_state.get_pipeline_model_parallel_rank(),
        )
        if sample_of == (0, 0):
            first += samples
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()
    models = WORLD // (tp * pp)
    expected = [f"{model}.{number}" for model in range(models) for number in range(SAMPLES)]
    name = f"TP{tp} PP{pp}"
    probe.measure(name, {"first": len(first), "all": len(everyone), "samples": len(expected)})
    probe.expect(f"samples of the first rank of each model under {name}", first, expected)
    probe.expect(f"copies on all ranks under {name}", len(everyone), tp * pp * len(expected))


def stock_peft(torch: Any) -> dict[str, str]:
    """The first error of peft's own LoRA on one parallel linear layer, "" for none."""
    outcome = {"version": importlib.metadata.version("peft"), "error": "", "broken": ""}
    try:
        from peft import LoraConfig, get_peft_model
    except Exception as error:  # noqa: BLE001 - it imports whatever is installed
        return {**outcome, "broken": _probe.innermost(error)}
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import ColumnParallelLinear
    from megatron.core.transformer import TransformerConfig

    pretend(torch, 0, 1)
    try:
        parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
        config = TransformerConfig(
            num_layers=1, hidden_size=8, num_attention_heads=1, use_cpu_initialization=True
        )
        layer = ColumnParallelLinear(
            8, 8, config=config, init_method=torch.nn.init.ones_, bias=False, gather_output=False
        )
        model = torch.nn.ModuleDict({"linear": layer})
        lora = LoraConfig(r=8, lora_alpha=32, target_modules=["linear"], megatron_config=config)
        adapted = get_peft_model(model, lora)
        adapted.base_model.model["linear"](torch.ones(1, 1, 8))
    except Exception as error:  # noqa: BLE001 - which one is what is measured
        outcome["error"] = _probe.innermost(error)
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()
    return outcome


if __name__ == "__main__":
    _probe.main(body, name="megatron-calls")
