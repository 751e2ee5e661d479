"""Training of the tiny GPT: Megatron's distributed optimizer, its schedules, and its reference.

Import it after ``_megatron.load``.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import _probe
import torch
from _layouts import ProbeLayout
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.module import Float16Module
from megatron.core.utils import get_batch_on_this_cp_rank

tiny_gpt = _probe.neighbour("_tiny_gpt")
lora = _probe.neighbour("_lora")
against = _probe.neighbour("_against")
reference = _probe.neighbour("_reference")

SEED = 1234
BATCH = 2
# Of each data parallel rank. Where gradients are a whole number of times too large, it shows
# whether micro-batches were forgotten or ranks: the numbers differ.
MICRO_BATCHES = 3
MANY = 2


class Step(NamedTuple):
    """One training step; ``loss`` is None on all but the last stage of a pipeline."""

    loss: float | None
    grad_norm: float


class Training:
    """Model, optimizer and data of this rank under one layout. ``kind`` are fields of a Kind."""

    def __init__(self, layout: ProbeLayout, device: str, **kind: Any) -> None:
        self.kind = reference.Kind(**kind)
        self.config = tiny_gpt.configuration(layout, self.kind)
        self.device = device
        self.share = share(SEED)
        self.against = against.Against(self.kind, self.share, reference.Recipe())
        model_parallel_cuda_manual_seed(SEED)
        torch.manual_seed(SEED)
        self.bare = tiny_gpt.build(self.config, self.kind)
        if self.kind.adapters:
            lora.adapt(self.bare, self.config, self.kind)
        self.model = DistributedDataParallel(
            self.config,
            DistributedDataParallelConfig(
                grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=True
            ),
            (Float16Module(self.config, self.bare) if self.kind.bf16 else self.bare).to(device),
        )
        self.config.finalize_model_grads_func = finalize_model_grads
        self.optimizer = get_megatron_optimizer(
            options(reference.Recipe(), self.config), [self.model]
        )
        self.scheduler = scheduler(self.optimizer, reference.Recipe())

    def step(self, measure: Callable[[str, Any], None] | None = None) -> Step:
        """One step. ``measure`` is given what the modules and the gradients of it are off by."""
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        with contextlib.ExitStack() as watching:
            if measure:
                seen = watching.enter_context(self.against.modules(self.bare, self.config))
                for key, value in seen.items():
                    measure(key, value)
            loss = self._through(self.share.mine, forward_only=False)
        if measure:
            measure("gradients", self.against.gradients(self.model, self.config))
        _, norm, _ = self.optimizer.step()
        self.scheduler.step(1)
        return Step(loss, float(norm))

    def evaluate(self) -> float | None:
        """The loss on batches that were never trained on."""
        with torch.no_grad():
            return self._through(share(SEED + 1).mine, forward_only=True)

    def _through(self, texts: list[Any], *, forward_only: bool) -> float | None:
        reduced = get_forward_backward_func()(
            forward_step_func=self._forward,
            data_iterator=iter(texts),
            model=[self.model],
            num_microbatches=len(texts),
            seq_length=tiny_gpt.SEQUENCE,
            micro_batch_size=BATCH,
            decoder_seq_length=tiny_gpt.SEQUENCE,
            forward_only=forward_only,
        )
        return self._average([float(batch["loss"]) for batch in reduced])

    def _average(self, losses: list[float]) -> float | None:
        """The mean of all data parallel ranks, over gloo, as trainers gather what they print.

        Context parallel ranks have each its part of a sum.
        """
        if not losses:
            return None
        group = parallel_state.get_data_parallel_group_gloo(with_context_parallel=True)
        total = torch.tensor(sum(losses) / len(losses), device="cpu")
        torch.distributed.all_reduce(total, group=group)
        return total.item() / parallel_state.get_data_parallel_world_size()

    def _forward(self, texts: Iterator[Any], model: Any) -> Any:
        text = next(texts).to(self.device)
        tokens, labels = text[:, :-1].contiguous(), text[:, 1:].contiguous()
        length = tiny_gpt.SEQUENCE
        positions = torch.arange(length, device=self.device).expand_as(tokens)
        mask = torch.ones(1, 1, length, length, dtype=torch.bool).triu(1).to(self.device)
        batch = {"tokens": tokens, "labels": labels, "positions": positions}
        mine = get_batch_on_this_cp_rank(batch)
        output = model(mine["tokens"], mine["positions"], mask, labels=mine["labels"])
        return output, mean

    @property
    def reports(self) -> bool:
        """Whether this rank is the one that prints: of the last stage the first."""
        return bool(
            parallel_state.is_pipeline_last_stage()
            and parallel_state.get_tensor_model_parallel_rank() == 0
            and parallel_state.get_data_parallel_rank() == 0
        )

    @property
    def sizes(self) -> dict[str, int]:
        """By what gradients are divided, and over how many ranks tensors are."""
        return {
            "micro_batches": self.share.count,
            "data": len(self.share.texts) // self.share.count,
            "tensor": int(parallel_state.get_tensor_model_parallel_world_size()),
        }

    @property
    def dtypes(self) -> dict[str, list[str]]:
        """Of the weights, of what their gradients are added up in, and of what is optimized."""
        groups = [
            group for optimizer in self.optimizers() for group in optimizer.optimizer.param_groups
        ]
        tensors = {
            "weights": [weight for _, weight in self._trained_weights()],
            "gradients": [weight.main_grad for _, weight in self._trained_weights()],
            "optimizer": [weight for group in groups for weight in group["params"]],
        }
        return {
            what: sorted({str(tensor.dtype).removeprefix("torch.") for tensor in several})
            for what, several in tensors.items()
        }

    @property
    def stage(self) -> int:
        """The number of this rank's stage of the pipeline, from 0."""
        return int(parallel_state.get_pipeline_model_parallel_rank())

    @property
    def learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def differences(self) -> dict[str, float]:
        """By how much adapters differ that ranks must have in common, in this rank's groups."""
        return dict(lora.differences(self.model))

    def poison(self) -> None:
        """For tests: one weight of this rank is no number any more."""
        next(weight for _, weight in self._trained_weights()).data[0] = math.nan

    def flip(self) -> None:
        """For tests: one bit of one weight of this rank is another one."""
        weight = next(weight for _, weight in self._trained_weights()).data.view(-1)
        weight[:1] = (weight[:1].cpu().view(torch.int32) ^ 1).view(torch.float32).to(self.device)

    def digest(self) -> str:
        """A hash of every bit of the trained weights."""
        hash_ = hashlib.sha256()
        for name, weight in self._trained_weights():
            hash_.update(name.encode())
            hash_.update(bytes(weight.detach().cpu().contiguous().view(torch.uint8).numpy()))
        return hash_.hexdigest()

    def save(self, path: str) -> None:
        """Write this rank's adapters and its shards of the optimizer's moments."""
        adapters = {name: weight.detach().cpu() for name, weight in self._trained_weights()}
        moments = [optimizer.optimizer.state_dict() for optimizer in self.optimizers()]
        schedule = self.scheduler.state_dict()
        torch.save({"adapters": adapters, "moments": moments, "schedule": schedule}, path)

    @torch.no_grad()
    def load(self, path: str) -> None:
        """Read what this rank has saved."""
        saved = torch.load(path, map_location="cpu", weights_only=True)
        # The optimizer's shards are views of these weights.
        for name, weight in self._trained_weights():
            weight.copy_(saved["adapters"][name])
        for optimizer, moments in zip(self.optimizers(), saved["moments"], strict=True):
            optimizer.optimizer.load_state_dict(moments)
        self.schedule(saved["schedule"])

    def schedule(self, state: dict[str, Any]) -> None:
        """Go on with the learning rate where it was."""
        self.scheduler.num_steps = 0
        self.scheduler.load_state_dict(state)

    def optimizers(self) -> list[Any]:
        """Megatron chains one for the experts to that of everything else."""
        return list(getattr(self.optimizer, "chained_optimizers", [self.optimizer]))

    def _trained_weights(self) -> Iterator[tuple[str, Any]]:
        return (
            (name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad
        )


def share(seed: int) -> Any:
    """What is trained on in every step, a part of it by each data parallel rank."""
    ranks = parallel_state.get_data_parallel_world_size()
    each = MICRO_BATCHES if ranks <= MANY else MANY
    source = random.Random(seed)  # noqa: S311 - data are no secret
    size = (BATCH, tiny_gpt.SEQUENCE + 1)
    texts = [
        torch.tensor([source.randrange(reference.VOCABULARY) for _ in range(math.prod(size))])
        for _ in range(each * ranks)
    ]
    texts = [text.reshape(size) for text in texts]
    return against.Share(texts, parallel_state.get_data_parallel_rank() * each, each)


def options(recipe: Any, config: Any) -> Any:
    return OptimizerConfig(
        optimizer="adam",
        lr=recipe.rate,
        min_lr=0.0,
        weight_decay=recipe.decay,
        adam_beta1=recipe.betas[0],
        adam_beta2=recipe.betas[1],
        adam_eps=recipe.epsilon,
        clip_grad=recipe.clip,
        bf16=config.bf16,
        params_dtype=config.params_dtype,
        use_distributed_optimizer=True,
    )


def scheduler(optimizer: Any, recipe: Any) -> Any:
    """Megatron's own, which also tells the optimizer which weights decay."""
    return OptimizerParamScheduler(
        optimizer,
        init_lr=0.0,
        max_lr=recipe.rate,
        min_lr=0.0,
        lr_warmup_steps=0,
        lr_decay_steps=recipe.end,
        lr_decay_style="linear",
        start_wd=recipe.decay,
        end_wd=recipe.decay,
        wd_incr_steps=recipe.end,
        wd_incr_style="constant",
    )


def mean(output: Any) -> Any:
    """Of the whole sequence; a context parallel rank has its part of the sum."""
    loss = output.float().mean() / parallel_state.get_context_parallel_world_size()
    # The schedule divides the loss in place.
    return loss, {"loss": loss.detach().clone()}
