"""Log-probabilities over a sharded vocabulary: values, gradients, and collectives by chunk.

Every rank holds eight words of the vocabulary. Log-probabilities of six tokens and the entropy of
three of them are compared with float64 on the CPU, for several chunk sizes, in both orders of
creation, and with backwards that write into saved tensors, as trainers had them: autograd must
refuse these, or the gradient must be right. All-reduces are counted. The cross entropy of
megatron.core, where it is installed, is compared as well.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import _megatron
import _on_megatron
import _probe
from _layouts import ProbeLayout
from _probe import Probe

MANIFEST = {
    "order": 260,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 180,
    "needs": ["allreduce", "mindspeed-patches"],
    "torchrun": True,
    "does": (
        "log-probabilities and entropy over a sharded vocabulary by value, gradient and "
        "collectives, in chunks, in both orders, and with backwards that write in place"
    ),
    "on_cpu": "over gloo; Megatron's cross entropy with megatron-core",
}

SEED = 7
# No multiple of 4, so that a last chunk is short; 16 is more than there are.
TOKENS = 6
WORDS = 8
CHUNKS = (None, 1, 2, 4, 16)
ENTROPY_OF = slice(-4, -1)
ENTROPY_WEIGHT = 0.01
CAREFUL = (False,)
ORDERS = ("log-probability first", "entropy first")


class Sample:
    """Logits of the whole vocabulary, the labels, and what this rank holds of them."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        source = random.Random(SEED)  # noqa: S311 - logits are no secret
        words = WORDS * probe.world_size
        flat = [source.gauss(0.0, 1.0) for _ in range(TOKENS * words)]
        self.torch, self.probe = torch, probe
        self.whole = torch.tensor(flat, dtype=torch.float32).reshape(1, TOKENS, words)
        self.labels = torch.tensor([[source.randrange(words) for _ in range(TOKENS)]])
        self.first = probe.rank * WORDS

    def mine(self) -> Any:
        """A leaf with this rank's part of the vocabulary, on the device."""
        part = self.whole[..., self.first : self.first + WORDS].contiguous()
        if self.probe.tampers(self.probe.stage_name):
            part = part * 1.001
        return part.to(self.probe.torch_device()).requires_grad_()

    def reference(self, weight: float) -> tuple[Any, Any]:
        """Log-probabilities, and the gradient of this rank's part of the loss, in float64."""
        leaf = self.whole.double().requires_grad_()
        log_softmax = leaf.log_softmax(-1)
        chosen = log_softmax.gather(-1, self.labels[..., None]).squeeze(-1)
        entropy = -(log_softmax.exp() * log_softmax).sum(-1)[:, ENTROPY_OF]
        (-chosen.mean() + weight * entropy.mean()).backward()
        return chosen.detach(), leaf.grad[..., self.first : self.first + WORDS]


def body(probe: Probe) -> None:
    """Log-probabilities and entropy over a sharded vocabulary."""
    megatron = _megatron.find_installed()
    if megatron:
        torch = _on_megatron.begin(probe)
    else:
        torch = probe.torch()
        probe.join()
    dist = torch.distributed
    with probe.stage("import the functions"):
        vocabulary = _probe.neighbour("_vocabulary")
    sample = Sample(probe, torch)
    values: dict[str, Any] = {}
    for chunk in CHUNKS:
        with probe.stage(f"log-probability in chunks of {chunk}"):
            values[str(chunk)] = logprob(sample, dist, vocabulary, chunk)
            probe.measure("chunks", values)
    rows: dict[str, Any] = {}
    for in_place in vocabulary.IN_PLACE:
        for order in ORDERS:
            with probe.stage(f"backward, {order}, in place: {in_place or 'none'}"):
                row = {
                    str(chunk): both(sample, vocabulary, chunk, order, in_place) for chunk in CHUNKS
                }
                rows.setdefault(in_place or "none", {})[order] = row
                probe.measure("in_place", rows)
    if megatron:
        layout = ProbeLayout(tp=probe.world_size)
        with _on_megatron.under(probe, layout), probe.stage("cross entropy of megatron.core"):
            probe.measure("cross_entropy", cross_entropy(sample, dist))


@contextlib.contextmanager
def counting(dist: Any) -> Iterator[list[int]]:
    """Count the all-reduces."""
    original = dist.all_reduce
    calls: list[int] = []

    def count_collectives(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return original(*arguments, **options)

    dist.all_reduce = count_collectives
    try:
        yield calls
    finally:
        dist.all_reduce = original


def logprob(sample: Sample, dist: Any, vocabulary: Any, chunk: int | None) -> dict[str, Any]:
    """Differences from float64, and the all-reduces of both ways."""
    leaf, labels = sample.mine(), sample.labels.to(sample.probe.torch_device())
    with counting(dist) as forward:
        got = vocabulary.LogProbability.apply(leaf * 1.0, labels, sample.first, chunk, *CAREFUL)
    with counting(dist) as backward:
        (-got.mean()).backward()
    return {**compare(sample, got, leaf), "forward": len(forward), "backward": len(backward)}


def compare(sample: Sample, got: Any, leaf: Any) -> dict[str, float]:
    expected, gradient = sample.reference(0.0)
    return {
        "value_off": off(got.reshape(expected.shape), expected),
        "gradient_off": off(leaf.grad, gradient),
    }


def off(got: Any, expected: Any) -> float:
    return float((got.detach().cpu().double() - expected).abs().max())


def both(
    sample: Sample, vocabulary: Any, chunk: int | None, order: str, in_place: str
) -> dict[str, Any]:
    """The gradient of log-probability and entropy of one tensor, or what autograd says."""
    leaf, labels = sample.mine(), sample.labels.to(sample.probe.torch_device())
    logits = leaf * 1.0

    def log_probability_of() -> Any:
        here = in_place == "log-probability"
        return vocabulary.LogProbability.apply(logits, labels, sample.first, chunk, here)

    def entropy() -> Any:
        return vocabulary.Entropy.apply(logits[:, ENTROPY_OF], in_place == "entropy")

    if order == ORDERS[0]:
        log_probability, other = log_probability_of(), entropy()
    else:
        other, log_probability = entropy(), log_probability_of()
    try:
        (-log_probability.mean() + ENTROPY_WEIGHT * other.mean()).backward()
    except RuntimeError as error:
        return {"error": str(error)[:300]}
    return {"gradient_off": off(leaf.grad, sample.reference(ENTROPY_WEIGHT)[1])}


def cross_entropy(sample: Sample, dist: Any) -> dict[str, Any]:
    """What Megatron's own gives for the same; its losses are negative log-probabilities."""
    from megatron.core.tensor_parallel import vocab_parallel_cross_entropy

    leaf, labels = sample.mine(), sample.labels.to(sample.probe.torch_device())
    with counting(dist) as forward:
        # Megatron wants the sequence first.
        got = vocab_parallel_cross_entropy((leaf * 1.0).transpose(0, 1).contiguous(), labels.t())
    with counting(dist) as backward:
        got.mean().backward()
    errors = compare(sample, -got.t(), leaf)
    return {**errors, "forward": len(forward), "backward": len(backward)}


if __name__ == "__main__":
    _probe.main(body, name="vocab-parallel-logprob")
