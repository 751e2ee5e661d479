import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_doctor.matrix.catalog import Catalog, folder
from ascend_doctor.matrix.models import Model, every, find
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import TrainingRun, activations, estimate, per_token
from ascend_doctor.planning.weights import adapters, rank_parameters
from tests.planning.interpreters import HERE, run

CATALOG = Catalog()
BASE: dict[str, Any] = {
    "schema": 1,
    "id": "x",
    "title": "x",
    "layers": 4,
    "hidden": 256,
    "heads": 8,
    "kv_heads": 4,
    "head_dim": 48,
    "ffn": 640,
    "vocabulary": 1000,
}
DENSE = Model(**BASE)
TIED = Model(**BASE, qk_norm=True, tied=True)
MOE = Model(**BASE, experts=8, top_k=2, expert_ffn=192)
SHORT = TrainingRun(sequence=128, micro_batch=2)

# Model, layout, rank and its stage, and whether activations are measured too.
MEASURED = [
    (DENSE, Layout(npus=1), 0, 0, True),
    (TIED, Layout(npus=1), 0, 0, True),
    (MOE, Layout(npus=1), 0, 0, True),
    (DENSE, Layout(npus=2, tp=2), 1, 0, True),
    (DENSE, Layout(npus=4, tp=4), 3, 0, False),
    (MOE, Layout(npus=8, tp=2, ep=4, etp=1), 5, 0, False),
    (MOE, Layout(npus=8, tp=2, ep=4), 7, 0, False),
    (MOE, Layout(npus=8, ep=8), 3, 0, False),
    (DENSE, Layout(npus=4, tp=2, pp=2), 0, 0, False),
    (TIED, Layout(npus=4, tp=2, pp=2), 3, 1, False),
    (MOE, Layout(npus=8, tp=2, pp=2, ep=2, etp=1), 6, 1, False),
]


def test_parameters_are_those_of_a_real_model_and_activations_are_near(
    examined_python: Path,
) -> None:
    cases = [
        {
            "model": msgspec.structs.asdict(model),
            "layout": msgspec.to_builtins(layout),
            "run": msgspec.to_builtins(SHORT),
            "rank": rank,
            "activations": with_activations,
        }
        for model, layout, rank, _, with_activations in MEASURED
    ]
    answers = run(
        examined_python, HERE / "measured_memory.py", cases, arguments=(str(folder("probes")),)
    )
    for (model, layout, _, stage, with_activations), answer in zip(MEASURED, answers, strict=True):
        expected = rank_parameters(model, layout, stage)
        assert (expected.dense, expected.expert) == (answer["dense"], answer["expert"]), layout
        if with_activations:
            tokens = SHORT.sequence * SHORT.micro_batch / layout.tp
            # Unfused operators keep more: see docs/records/plan.md.
            share = answer["layer"] / (per_token(model, layout, 0) * tokens)
            assert 1.1 < share < 1.6, (model, layout, share)


def test_the_row_of_the_brief() -> None:
    """Qwen3-30B-A3B, counted by hand: 28.99e9 parameters of experts."""
    model = find(CATALOG, "qwen3-30b-a3b")
    for layout, billions in (
        (Layout(npus=8, tp=2, ep=4), 3.62),
        (Layout(npus=8, tp=2, ep=4, etp=1), 7.25),
        (Layout(npus=16, tp=2, ep=8), 1.81),
        (Layout(npus=1), 28.99),
    ):
        assert rank_parameters(model, layout, 0).expert / 1e9 == pytest.approx(billions, abs=0.005)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen3-8b", 8.2),
        ("qwen3-32b", 32.8),
        ("llama-3.1-8b", 8.03),
        ("qwen3-30b-a3b", 30.5),
        ("qwen3-235b-a22b", 235),
        ("qwen3-next-80b-a3b", 79.7),
        ("deepseek-v3", 671),
        ("qwen3.5-35b-a3b", 34.7),
        ("qwen3.5-122b-a10b", 122),
    ],
)
def test_rows_have_as_many_parameters_as_their_names_say(name: str, billions: float) -> None:
    total = rank_parameters(find(CATALOG, name), Layout(npus=1), 0).total / 1e9
    assert total == pytest.approx(billions, rel=0.01)


def test_every_row_loads_and_has_sources() -> None:
    rows = every(CATALOG)
    assert len(rows) >= 9
    assert all(row.sources for row in rows)
    assert all(path.stem == row.id for row in rows for path in CATALOG.files("models")[row.id])


# No size in their names, or only the active part's.
NAMELESS = {"kimi-k2", "ling-1t", "llama-4-scout", "mixtral-8x22b", "mixtral-8x7b"} | {
    "phi-3.5-mini",
    "phi-3.5-moe",
    "qwen1.5-moe-a2.7b",
}
# 30B of Qwen3-30B-A3B and 671b of deepseek3_671b: not A3B, 8x7B or bf16.
BILLIONS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z])")


@pytest.mark.parametrize("row", every(CATALOG), ids=lambda row: row.id)
def test_a_row_has_as_many_parameters_as_its_names_say(row: Model) -> None:
    parts = rank_parameters(row, Layout(npus=1), 0)
    whole = (parts.dense + parts.expert) / 1e9
    paths = (source.url.rpartition(":")[2] for source in row.sources)
    words = re.sub("[_-]", " ", " ".join((row.id, row.title, *row.names, *paths)).lower())
    sizes = {float(size) for size in BILLIONS.findall(words)}
    near = any(abs(whole - size) <= max(0.12 * size, 0.5) for size in sizes)
    assert near != (row.id in NAMELESS), (whole, sizes)


@pytest.mark.parametrize("row", every(CATALOG), ids=lambda row: row.id)
def test_stages_hold_the_whole_model(row: Model) -> None:
    layout = Layout(npus=4, pp=4)
    whole = rank_parameters(row, Layout(npus=1), 0)
    parts = [rank_parameters(row, layout, stage) for stage in range(4)]
    assert sum(part.expert for part in parts) == whole.expert
    # Under a pipeline the last stage copies tied embeddings.
    copy = row.vocabulary * row.hidden if row.tied else 0
    assert sum(part.dense for part in parts) == whole.dense + copy


def test_adapters_are_those_of_all_linear_layers() -> None:
    """Counted by hand: four linear layers of a dense layer, rank 8."""
    rank, hidden = 8, 256
    attention = (hidden + (8 + 2 * 4) * 48) + (8 * 48 + hidden)
    network = (hidden + 2 * 640) + (640 + hidden)
    expected = 4 * rank * (attention + network)
    assert adapters(DENSE, Layout(npus=1), 0, rank).total == expected


def test_recomputation_and_pipelines_keep_what_they_should() -> None:
    model = find(CATALOG, "qwen3-8b")
    layout, training = Layout(npus=4, pp=4), TrainingRun(sequence=1024)
    saved = [activations(model, layout, training, stage, recompute=False) for stage in range(4)]
    # Each stage has one micro-batch more in flight than the next.
    assert saved[0] - saved[1] == pytest.approx(saved[1] - saved[2])
    assert saved[0] > saved[1]
    again = estimate(model, layout, training, recompute=True)
    assert again.activations < estimate(model, layout, training, recompute=False).activations
    assert estimate(model, layout, training, recompute=True).weights == again.weights
