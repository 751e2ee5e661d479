"""Megatrons with wrong mathematics: smoke-train must fail, and say what is wrong."""

from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from tests.knobs import draw
from tests.probes.judged import judge_probes
from tests.probes.mutated import Mutation, mutate
from tests.probes.started import start_probe

EXPERTS, PIPELINE, DATA = "TP2 EP2 ETP1", "PP2 ETP1", "no parallelism but DP"
BUFFER = "distributed/param_and_grad_buffer.py"
SCALE = "                bucket.grad_data *= bucket.gradient_scaling_factor"
DIVIDE = "output_tensor /= num_microbatches"
# The mutation, and what is said of it by layout of two ranks.
MUTATIONS: dict[str, tuple[Mutation, dict[str, str]]] = {
    "gradients of data parallel ranks are not reduced": (
        Mutation(BUFFER, (("dist_reduce_scatter_func(\n", "(lambda *_, **__: None)(\n"),)),
        {DATA: "they are not reduced over the ranks"},
    ),
    "gradients of data parallel ranks are summed": (
        Mutation(BUFFER, ((SCALE, "                pass"),)),
        {DATA: "all gradients are 2 times too large: those of the data parallel ranks are added"},
    ),
    "gradients are not divided by micro-batches": (
        Mutation("pipeline_parallel/schedules.py", ((DIVIDE, "pass"),)),
        dict.fromkeys(
            (EXPERTS, PIPELINE, DATA),
            "3 times too large: they are not divided by the number of micro-batches",
        ),
    ),
    "gradients are four times too large": (
        Mutation(
            BUFFER,
            (("if bucket.gradient_scaling_factor != 1.0:", "if True:"), (SCALE, f"{SCALE} * 4")),
        ),
        dict.fromkeys((EXPERTS, PIPELINE, DATA), "all gradients are 4 times what they should be"),
    ),
    "tied embedding gradients are not reduced": (
        Mutation(
            "distributed/finalize_model_grads.py",
            (("    _allreduce_word_embedding_grads(model", "    (lambda *_: None)(model"),),
        ),
        {PIPELINE: "the tied embedding has on the first and on the last stage only the gradient"},
    ),
    "clipping is off": (
        Mutation("optimizer/clip_grads.py", (("if clip_coeff < 1.0:", "if clip_coeff < 0.0:"),)),
        dict.fromkeys((EXPERTS, PIPELINE, DATA), "it trains as if gradients were not clipped"),
    ),
    "rotary embedding of queries is off": (
        Mutation(
            "transformer/attention.py",
            (("query = apply_rotary_pos_emb(", "_ = apply_rotary_pos_emb("),),
        ),
        dict.fromkeys((EXPERTS, PIPELINE, DATA), "a model without rotary embedding of the queries"),
    ),
    "rotary embedding is off": (
        Mutation(
            "transformer/attention.py",
            (
                ("query = apply_rotary_pos_emb(", "_ = apply_rotary_pos_emb("),
                ("key = apply_rotary_pos_emb(", "_ = apply_rotary_pos_emb("),
            ),
        ),
        dict.fromkeys((EXPERTS, PIPELINE, DATA), "it is the loss of a model without rotary"),
    ),
    "halves of SwiGLU are swapped": (
        Mutation(
            "transformer/mlp.py",
            (("x_glu, x_linear = torch.chunk(", "x_linear, x_glu = torch.chunk("),),
        ),
        dict.fromkeys((EXPERTS, PIPELINE, DATA), "a model with the halves of SwiGLU swapped"),
    ),
    "attention is uniform": (
        Mutation(
            "transformer/dot_product_attention.py", (("alpha=self.softmax_scale", "alpha=0.0"),)
        ),
        dict.fromkeys(
            (EXPERTS, PIPELINE, DATA), "a model with attention that looks at all tokens alike"
        ),
    ),
}
# The others take half a minute each.
QUICK = ("gradients of data parallel ranks are summed", "rotary embedding of queries is off")


@pytest.mark.parametrize("name", draw(MUTATIONS, QUICK, 2))
def test_wrong_mathematics_get_their_name(
    name: str, core: Path, forked_megatron: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation, expected = MUTATIONS[name]
    monkeypatch.setenv("PYTHONPATH", str(mutate(core, tmp_path, mutation)))
    run = start_probe(forked_megatron, "smoke-train", ranks=2)
    errors = [
        finding
        for finding in judge_probes(run, check="smoke-train")
        if finding.level is Level.ERROR
    ]
    for layout, text in expected.items():
        assert [
            finding for finding in errors if layout in finding.title and text in finding.observed
        ], errors
    assert {
        layout
        for finding in errors
        for layout in (EXPERTS, PIPELINE, DATA)
        if layout in finding.title
    } == set(expected)
