"""The tiny GPT in plain torch, without Megatron: loss, gradients and AdamW, on the CPU in float64.

What every layout of Megatron must compute. Weights carry the names and the order of rows that
Megatron gives them (0.12.1 to 0.16.1): rows of ``linear_qkv`` are the queries of a group, then its
key and its value; of a gated ``linear_fc1`` all of the gate, then all of the other half. A
``Fault`` is the same model with a mistake, so that a wrong number can be given a name.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

VOCABULARY = 128
SEQUENCE = 32
HIDDEN = 64
# So that each product keeps the size of what it gets: attention looks at some tokens and not at
# others. With 0.02 one that looks at all alike moves the first loss by 8e-5.
SPREAD = 0.15
# As Megatron has them where nothing is said: layernorm_epsilon and rotary_base.
EPSILON = 1e-5
ROTARY = 10000
TOP = 2
BALANCE = 0.01
# How strongly tokens are marked for two experts, and routers look for it, in bfloat16.
MARK = 8.0
LOOK = 2.0
LORA_RANK = 8
LORA_ALPHA = 32


class Kind(NamedTuple):
    """What differs between the models.

    ``experts`` of each layer, 0 for a dense one; ``groups`` of queries share a key. ``tied``: the
    output shares the embedding's weight. ``adapters`` alone are trained, or all there is.
    ``marked``: the halves of adapters that are not sharded say that each rank has seen a part of
    the sequence. ``dispatcher`` moves tokens to experts. ``bf16``: in bfloat16, with flash
    attention and grouped matrix products.
    """

    layers: int = 2
    experts: int = 4
    groups: int = 2
    tied: bool = False
    adapters: bool = True
    marked: bool = True
    dispatcher: str = "alltoall"
    bf16: bool = False


class Recipe(NamedTuple):
    """How it is trained: AdamW, with a rate that falls in a line to 0 after ``end`` steps.

    ``epsilon`` is large for Adam, which then sees how large gradients are.
    """

    rate: float = 5e-3
    end: int = 20
    decay: float = 0.1
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-4


class Trace(NamedTuple):
    """Of each step: the mean loss, and the norm of the gradients before they are clipped."""

    losses: list[float]
    grad_norms: list[float]


NEIGHBOURS = "whose experts get the tokens of their neighbours"
# Mistakes that are tried where a number is wrong, as the report names them.
FORWARD_FAULTS = (
    "without rotary embedding",
    "without rotary embedding of the queries",
    "without rotary embedding of the keys",
    "with the halves of SwiGLU swapped",
    "with attention that looks at all tokens alike",
    "without the causal mask",
    "without the scale of attention",
    "without the routing weights of the experts",
    NEIGHBOURS,
)
STEP_FAULTS = {
    "the optimizer wrote nothing": {"rate": 0.0},
    "gradients were not clipped": {"clip": math.inf},
    "weights did not decay": {"decay": 0.0},
    "the learning rate stayed what it was": {"end": 1 << 40},
    "the second beta of Adam were 0.99": {"betas": (0.9, 0.99)},
}


@functools.cache  # each reference, of which a run has twenty, asks for the same again
def draw(name: str, shape: tuple[int, ...]) -> Any:
    """Numbers of variance 1 that depend on the name alone, on no library and no device."""
    source = random.Random(name)  # noqa: S311 - weights are no secret
    count = math.prod(shape)
    flat = torch.tensor([source.uniform(-1.0, 1.0) for _ in range(count)])
    return flat.reshape(shape) * 3**0.5


def first_half(name: str, shape: tuple[int, ...]) -> Any:
    """The half of the adapter of this layer that is not zero at the start."""
    return draw(f"{name}.first", shape) / shape[1] ** 0.5


class ReferenceModel:
    """Weights by name. ``seen`` keeps what the modules of the last forward pass gave, in order."""

    def __init__(self, kind: Kind, fault: str = "") -> None:
        self.kind, self.fault = kind, fault
        # Of a tied weight, which use has a gradient: "embedding", "output", or both.
        self.use = ""
        self.heads, self.wide = 2 * kind.groups, HIDDEN // (2 * kind.groups)
        self.weights: dict[str, Any] = {}
        self.seen: dict[str, Any] = {}
        self._draw()

    def _draw(self) -> None:
        kind = self.kind
        self._matrix("embedding.word_embeddings", VOCABULARY, HIDDEN)
        for layer in (f"decoder.layers.{number}" for number in range(kind.layers)):
            self._norm(f"{layer}.input_layernorm")
            attention = f"{layer}.self_attention"
            self._layer(f"{attention}.linear_qkv", (self.heads + 2 * kind.groups) * self.wide)
            self._layer(f"{attention}.linear_proj", HIDDEN)
            self._norm(f"{layer}.pre_mlp_layernorm")
            if kind.experts:
                self._matrix(f"{layer}.mlp.router", kind.experts, HIDDEN)
            for mlp, inner in self._mlps(f"{layer}.mlp"):
                self._layer(f"{mlp}.linear_fc1", 2 * inner)
                self._layer(f"{mlp}.linear_fc2", HIDDEN, inner)
        self._norm("decoder.final_layernorm")
        if not kind.tied:
            self._matrix("output_layer", VOCABULARY, HIDDEN)
        if kind.bf16:
            self._steer()
        for name, weight in self.weights.items():
            trained = not kind.adapters or name.endswith((".first.weight", ".second.weight"))
            weight.requires_grad_(trained)

    def _steer(self) -> None:
        """Weights that bfloat16 has, and tokens whose experts do not depend on its rounding.

        Each token carries the mark of two experts, which the routers look at: the least lead that
        an expert which is chosen has over one that is not is then far above an error of bfloat16.
        A token that went elsewhere would be another model, and not a less exact one.
        """
        experts = self.kind.experts
        marks = self.weights["embedding.word_embeddings.weight"]
        for token in range(VOCABULARY if experts else 0):
            first = token % experts
            second = (first + 1 + token // experts % (experts - 1)) % experts
            marks[token, [first, second]] += MARK
        for name, weight in self.weights.items():
            if name.endswith("router.weight"):
                weight[:, :experts] += LOOK * torch.eye(experts)
            weight.copy_(weight.to(torch.bfloat16))

    def _mlps(self, name: str) -> list[tuple[str, int]]:
        """The experts of a layer, or its only MLP, and how wide they are inside."""
        if not self.kind.experts:
            return [(name, 2 * HIDDEN)]
        return [
            (f"{name}.experts.local_experts.{expert}", HIDDEN)
            for expert in range(self.kind.experts)
        ]

    def _norm(self, name: str) -> None:
        self.weights[f"{name}.weight"] = torch.ones(HIDDEN, dtype=torch.float64)

    def _matrix(self, name: str, rows: int, columns: int) -> None:
        whole = f"{name}.weight"
        self.weights[whole] = (SPREAD * draw(whole, (rows, columns))).double()

    def _layer(self, name: str, rows: int, columns: int = HIDDEN) -> None:
        """A matrix, and its adapter."""
        self._matrix(name, rows, columns)
        if self.kind.adapters:
            first = first_half(name, (LORA_RANK, columns)).double()
            self.weights[f"{name}.first.weight"] = first
            self.weights[f"{name}.second.weight"] = torch.zeros(
                rows, LORA_RANK, dtype=torch.float64
            )

    def trained(self) -> dict[str, Any]:
        return {name: weight for name, weight in self.weights.items() if weight.requires_grad}

    def losses(self, tokens: Any, labels: Any) -> tuple[Any, Any]:
        """The loss of a micro-batch, and what the balance of the experts adds to its gradient."""
        self.seen = {}
        balance: Any = 0.0
        embedding = self.weights["embedding.word_embeddings.weight"]
        hidden = (embedding.detach() if self.use == "output" else embedding)[tokens.T]
        hidden = self._note("embedding", hidden)
        for layer in (f"decoder.layers.{number}" for number in range(self.kind.layers)):
            normal = self._normal(f"{layer}.input_layernorm", hidden)
            hidden = hidden + self._attention(f"{layer}.self_attention", normal)
            normal = self._normal(f"{layer}.pre_mlp_layernorm", hidden)
            if self.kind.experts:
                expert_output, added = self._experts(f"{layer}.mlp", normal)
                balance = balance + added
            else:
                expert_output = self._mlp(f"{layer}.mlp", normal)
            hidden = self._note(layer, hidden + expert_output)
        hidden = self._normal("decoder.final_layernorm", hidden)
        weight = embedding if self.kind.tied else self.weights["output_layer.weight"]
        weight = weight.detach() if self.use == "embedding" else weight
        logits = self._note("output_layer", hidden @ weight.T)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.T.flatten())
        return loss, balance

    def _note(self, name: str, value: Any) -> Any:
        self.seen[name] = value.detach()
        return value

    def _normal(self, name: str, value: Any) -> Any:
        root = (value.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
        return self._note(name, value * root * self.weights[f"{name}.weight"])

    def _apply(self, name: str, value: Any) -> Any:
        output = value @ self.weights[f"{name}.weight"].T
        if self.kind.adapters:
            inner = value @ self.weights[f"{name}.first.weight"].T
            output = output + LORA_ALPHA / LORA_RANK * (
                inner @ self.weights[f"{name}.second.weight"].T
            )
        return output

    def _attention(self, name: str, value: Any) -> Any:
        length, batch = value.shape[:2]
        mixed = self._note(f"{name}.linear_qkv", self._apply(f"{name}.linear_qkv", value))
        mixed = mixed.reshape(length, batch, self.kind.groups, -1, self.wide)
        query, key, values = mixed[..., :-2, :], mixed[..., -2:-1, :], mixed[..., -1:, :]
        query = self._rotate(query, "queries")
        key = self._rotate(key, "keys")
        core = f"{name}.core_attention"
        for what, tensor in (("query", query), ("key", key), ("value", values)):
            self._note(f"{core}, {what}", tensor.flatten(2))
        scores = torch.einsum("sbgqd,tbgkd->bgqst", query, key)
        if self.fault != "without the scale of attention":
            scores = scores / self.wide**0.5
        if self.fault == "with attention that looks at all tokens alike":
            scores = scores * 0
        if self.fault != "without the causal mask":
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        mean = torch.einsum("bgqst,tbgkd->sbgqd", scores.softmax(-1), values)
        mean = self._note(core, mean.reshape(length, batch, -1))
        return self._note(f"{name}.linear_proj", self._apply(f"{name}.linear_proj", mean))

    def _rotate(self, value: Any, whose: str) -> Any:
        if self.fault in {"without rotary embedding", f"without rotary embedding of the {whose}"}:
            return value
        half = self.wide // 2
        rates = ROTARY ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.outer(torch.arange(len(value), dtype=torch.float64), rates)
        angles = angles.reshape(len(value), 1, 1, 1, half)
        first, second = value[..., :half], value[..., half:]
        return torch.cat(
            [
                first * angles.cos() - second * angles.sin(),
                second * angles.cos() + first * angles.sin(),
            ],
            -1,
        )

    def _mlp(self, name: str, value: Any) -> Any:
        both = self._note(f"{name}.linear_fc1", self._apply(f"{name}.linear_fc1", value))
        gate, other = both.chunk(2, -1)
        if self.fault == "with the halves of SwiGLU swapped":
            gate, other = other, gate
        inner = self._note(
            f"{name}.linear_fc2, what it is given", torch.nn.functional.silu(gate) * other
        )
        return self._note(f"{name}.linear_fc2", self._apply(f"{name}.linear_fc2", inner))

    def _experts(self, name: str, value: Any) -> tuple[Any, Any]:
        """Each token goes to the two experts that the router likes best."""
        tokens = value.flatten(0, 1)
        logits = tokens @ self.weights[f"{name}.router.weight"].T
        best, chosen = logits.topk(TOP, -1)
        shares = torch.zeros_like(logits).scatter(1, chosen, best.softmax(-1))
        taken = torch.zeros_like(logits).scatter(1, chosen, 1.0)
        self._note(f"{name}.router", shares)
        if self.fault == "without the routing weights of the experts":
            shares = taken
        output = torch.zeros_like(tokens)
        for number, (expert, _) in enumerate(self._mlps(name)):
            other = min(number ^ 1, self.kind.experts - 1)
            to = other if self.fault == NEIGHBOURS else number
            rows = taken[:, to].nonzero().flatten()
            part = self._mlp(expert, tokens[rows]) * shares[rows, to : to + 1]
            output = output.index_add(0, rows, part)
        count = len(tokens)
        liked = (logits.softmax(-1).sum(0) * taken.sum(0)).sum()
        balance = BALANCE * self.kind.experts / (TOP * count * count) * liked
        return self._note(name, output.reshape(value.shape)), balance

    def gradients(self, texts: Sequence[Any]) -> tuple[float, dict[str, Any]]:
        """The mean loss of micro-batches, and its gradients by name."""
        weights = self.trained()
        total: Any = 0.0
        shown = 0.0
        for text in texts:
            loss, balance = self.losses(text[:, :-1], text[:, 1:])
            total = total + (loss + balance) / len(texts)
            shown += loss.item() / len(texts)
        gradients = torch.autograd.grad(total, list(weights.values()))
        return shown, dict(zip(weights, gradients, strict=True))

    @torch.no_grad()
    def loss(self, texts: Sequence[Any]) -> float:
        return sum(self.losses(text[:, :-1], text[:, 1:])[0].item() for text in texts) / len(texts)


class Moments(NamedTuple):
    """Of Adam, by weight."""

    first: dict[str, Any]
    second: dict[str, Any]


def fresh(model: ReferenceModel) -> Moments:
    """Before the first step."""
    names = model.trained().items()
    return Moments(*({name: torch.zeros_like(weight) for name, weight in names} for _ in range(2)))


def train(
    model: ReferenceModel,
    texts: Sequence[Any],
    steps: int,
    recipe: Recipe,
    moments: Moments | None = None,
) -> Trace:
    """AdamW as Megatron takes it: clipped by the norm of all, no decay of vectors."""
    trace = Trace([], [])
    first, second = moments or fresh(model)
    for step in range(1, steps + 1):
        loss, gradients = model.gradients(texts)
        norm = sum(gradient.square().sum().item() for gradient in gradients.values()) ** 0.5
        trace.losses.append(loss)
        trace.grad_norms.append(norm)
        # The small number is Megatron's (megatron/core/optimizer/clip_grads.py).
        scale = min(recipe.clip / (norm + 1e-6), 1.0)
        rate = recipe.rate * (1 - (step - 1) / recipe.end)
        for name, weight in model.trained().items():
            gradient = gradients[name] * scale
            for mean, beta, value in (
                (first, recipe.betas[0], gradient),
                (second, recipe.betas[1], gradient.square()),
            ):
                mean[name].mul_(beta).add_(value, alpha=1 - beta)
            root = (second[name] / (1 - recipe.betas[1] ** step)).sqrt() + recipe.epsilon
            change = first[name] / (1 - recipe.betas[0] ** step) / root
            with torch.no_grad():
                if weight.dim() > 1:
                    weight.mul_(1 - rate * recipe.decay)
                weight.sub_(rate * change)
    return trace
