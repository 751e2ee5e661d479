"""Megatron's tiny model against the one in plain torch: modules, gradients, steps, and mistakes.

Measured on the first step: by how much what each module gives is off, and each gradient once it is
reduced. Where a number is off, the reference tries the mistakes that it knows; what they give is
recorded beside it. Import it after ``_tiny_gpt``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import _probe
import torch
from megatron.core import parallel_state

reference = _probe.neighbour("_reference")
tiny_gpt = _probe.neighbour("_tiny_gpt")

# What is off by more has its mistake looked for; the verdict is a check's, which allows twice as
# much. Where this is too little, every training in bfloat16 tries all mistakes.
LOOK = {"modules": 5e-5, "gradients": 5e-5, "losses": 5e-5}
LOOK_BF16 = {"modules": 3e-2, "gradients": 6e-2, "losses": 5e-4}
# What an attention is given: its places among the arguments.
CORE = ("query", "key", "value")


class Share(NamedTuple):
    """The micro-batches of all data parallel ranks, and which of them are this rank's."""

    texts: list[Any]
    first: int
    count: int

    @property
    def mine(self) -> list[Any]:
        return self.texts[self.first : self.first + self.count]

    @property
    def last(self) -> list[Any]:
        """The last micro-batch of each data parallel rank."""
        return self.texts[self.count - 1 :: self.count]


class Against:
    """The reference of a run: the same kind of model, trained on all micro-batches."""

    def __init__(self, kind: Any, share: Share, recipe: Any) -> None:
        self.kind, self.share, self.recipe = kind, share, recipe
        self.look = LOOK_BF16 if kind.bf16 else LOOK
        self._states: dict[int, dict[str, Any]] = {}

    def trace(self, steps: int) -> Any:
        """The losses and gradient norms of so many steps."""
        return reference.train(
            reference.ReferenceModel(self.kind), self.share.texts, steps, self.recipe
        )

    def state(self, steps: int) -> dict[str, Any]:
        """Weights and moments after so many steps."""
        if steps not in self._states:
            model = reference.ReferenceModel(self.kind)
            moments = reference.fresh(model)
            reference.train(model, self.share.texts, steps, self.recipe, moments)
            self._states[steps] = {"weights": model.weights, **moments._asdict()}
        return self._states[steps]

    @contextlib.contextmanager
    def modules(self, model: Any, config: Any) -> Iterator[dict[str, Any]]:
        """``modules``: of each, in the first forward pass, its turn and its relative error.

        ``alike``: by how much the first one that is off differs from that of each mistake.
        """
        whole = reference.ReferenceModel(self.kind)
        text = self.share.mine[0]
        whole.loss([text])
        # Experts get their tokens in an order of their own.
        turns = {
            name: turn for turn, name in enumerate(whole.seen) if ".local_experts." not in name
        }
        errors: dict[str, Any] = {}
        alike: dict[str, float] = {}
        undo: list[Any] = []

        def note(name: str, value: Any) -> None:
            if name in turns and name not in errors:
                off = distance(value, whole.seen[name])
                errors[name] = (turns[name], off)
                if off > self.look["modules"] and not alike:
                    alike.update(self._alike(name, value, text))

        for path, module in model.named_modules():
            name = tiny_gpt.globally(path, config)
            undo += [
                module.register_forward_pre_hook(look_at_inputs(name, note), with_kwargs=True),
                module.register_forward_hook(
                    lambda _module, _arguments, output, name=name: note(name, leading(output))
                ),
            ]
        try:
            yield {"modules": errors, "alike": alike}
        finally:
            for handle in undo:
                handle.remove()

    def _alike(self, name: str, value: Any, text: Any) -> dict[str, float]:
        outputs_off = {}
        for fault in reference.FORWARD_FAULTS:
            model = reference.ReferenceModel(self.kind, fault)
            model.loss([text])
            outputs_off[fault] = distance(value, model.seen[name])
        return outputs_off

    def mistakes_of(self, losses: list[Any], trace: Any) -> dict[str, list[float]]:
        """Where losses are off, those of the mistakes that could make them so."""
        off = [
            abs(got - expected) > self.look["losses"] * expected
            for got, expected in zip(losses, trace.losses, strict=True)
            if got is not None
        ]
        if not any(off):
            return {}
        if off[0]:
            return {
                fault: [float(reference.ReferenceModel(self.kind, fault).loss(self.share.texts))]
                for fault in reference.FORWARD_FAULTS
            }
        return {
            fault: reference.train(
                reference.ReferenceModel(self.kind),
                self.share.texts,
                len(losses),
                self.recipe._replace(**change),
            ).losses
            for fault, change in reference.STEP_FAULTS.items()
        }

    def gradients(self, model: Any, config: Any) -> dict[str, Any]:
        """By weight: the size of this rank's part, by how much it is off, and by which factor.

        Where something is off, ``own`` is the same against the gradient of this rank's
        micro-batches alone, ``last`` that of the last micro-batch of each rank, ``half`` that of
        the use as embedding or as output of a tied weight.
        """
        # Around a model in bfloat16 there is another module.
        inner = getattr(model.module, "module", model.module)
        name_of = {weight: name for name, weight in inner.named_parameters()}
        parts = list(iterate_reduced(model))
        errors = self._compare(parts, name_of, config, self._whole(self.share.texts))
        look = self.look["gradients"]
        off = [name for name, error in errors.items() if error["off"] > look * error["size"]]
        if off and parallel_state.get_data_parallel_world_size() > 1:
            own = self._compare(parts, name_of, config, self._whole(self.share.mine))
            for name in off:
                errors[name]["own"] = own[name]["rest"]
        if off and self.share.count > 1:
            last = self._compare(parts, name_of, config, self._whole(self.share.last))
            for name in off:
                errors[name]["last"] = last[name]["rest"]
        if any("word_embeddings" in name or "output_layer" in name for name in off):
            self._halves(errors, parts, name_of, config)
        return errors

    def _whole(self, texts: list[Any]) -> dict[str, Any]:
        return dict(reference.ReferenceModel(self.kind).gradients(texts)[1])

    def _halves(self, errors: dict[str, Any], parts: list[Any], name_of: Any, config: Any) -> None:
        """The two uses of a tied weight, each by itself."""
        if not self.kind.tied:
            return
        model = reference.ReferenceModel(self.kind)
        embedding = "embedding.word_embeddings.weight"
        model.use = "embedding" if parallel_state.is_pipeline_first_stage() else "output"
        halves = {**self._whole(self.share.texts), embedding: None}
        halves[embedding] = model.gradients(self.share.texts)[1][embedding]
        half = self._compare(parts, name_of, config, halves)
        for name, error in errors.items():
            if "word_embeddings" in name or "output_layer" in name:
                error["half"] = half[name]["rest"]

    def _compare(
        self, parts: list[Any], name_of: Any, config: Any, whole: dict[str, Any]
    ) -> dict[str, Any]:
        errors = {}
        for weight, first, values in parts:
            name = name_of[weight]
            expected = tiny_gpt.take_share(whole, name, weight, config, self.kind).reshape(-1)
            expected = expected[first : first + len(values)]
            got = values.detach().cpu().double()
            sharded = bool(getattr(weight, "tensor_model_parallel", False))
            errors[tiny_gpt.globally(name, config)] = {
                **measure_error(got, expected),
                "sharded": sharded,
            }
        return errors


def measure_error(got: Any, expected: Any) -> dict[str, float]:
    """Size, error, factor, and the relative error that the factor leaves."""
    size = float(expected.norm())
    factor = float(got @ expected) / size**2 if size else 0.0
    rest = float((got - factor * expected).norm()) / (size * abs(factor)) if factor else -1.0
    return {
        "size": size,
        "off": float((got - expected).norm()),
        "factor": factor,
        "rest": rest,
    }


def iterate_reduced(model: Any) -> Iterator[tuple[Any, int, Any]]:
    """Weights, the place of their first element that is reduced on this rank, and from it on.

    The distributed optimizer reduces to each data parallel rank an equal part of a bucket.
    """
    for buffer in (*model.buffers, *model.expert_parallel_buffers):
        group = buffer.data_parallel_group
        shared = model.ddp_config.use_distributed_optimizer
        size, rank = (group.size(), group.rank()) if shared else (1, 0)
        for bucket in buffer.buckets:
            # Buckets are padded, so that data parallel ranks have equal parts of them.
            part = bucket.grad_data.numel() // size
            begin = bucket.grad_data.storage_offset() + rank * part
            for weight in bucket.params:
                flat = weight.main_grad.view(-1)
                first = max(begin - flat.storage_offset(), 0)
                last = min(begin + part - flat.storage_offset(), len(flat))
                if first < last:
                    yield weight, first, flat[first:last]


def distance(value: Any, whole: Any) -> float:
    """The relative error of what this rank has of a value of the whole model.

    Context parallel ranks have two parts of the tokens (the first dimension), tensor parallel
    ranks parts of the tokens, or of what the last dimension counts.
    """
    parts = parallel_state.get_context_parallel_world_size()
    if parts > 1 and value.shape[0] < len(whole):
        cp_rank = parallel_state.get_context_parallel_rank()
        # Megatron gives a rank a part from the front and its mirror image from the end, so that
        # causal attention costs all ranks the same (get_batch_on_this_cp_rank).
        pieces = whole.chunk(2 * parts)
        whole = torch.cat([pieces[cp_rank], pieces[2 * parts - 1 - cp_rank]])
    value = value.detach()
    if value.dim() > whole.dim():
        value = value.flatten(2)
    rank = parallel_state.get_tensor_model_parallel_rank()
    size = parallel_state.get_tensor_model_parallel_world_size()
    for along in (0, -1):
        if value.shape[along] * size == whole.shape[along] and size > 1:
            whole = whole.chunk(size, along)[rank]
    if value.shape != whole.shape:
        return -1.0
    return float((value.cpu().double() - whole).norm() / whole.norm())


def leading(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output


def look_at_inputs(name: str, note: Any) -> Any:
    """A hook that looks at what an attention and the second half of an MLP are given."""

    def hook(_: Any, arguments: Any, options: Any) -> None:
        if name.endswith("core_attention"):
            for position, what in enumerate(CORE):
                value = arguments[position] if len(arguments) > position else options.get(what)
                if value is not None:
                    note(f"{name}, {what}", value)
        elif name.endswith("mlp.linear_fc2") and arguments:
            note(f"{name}, what it is given", arguments[0])

    return hook
