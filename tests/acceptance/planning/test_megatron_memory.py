"""The estimate of memory beside Megatron-LM's own."""

import sys
import types
from types import ModuleType, SimpleNamespace

import pytest

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.models import Model, find
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import TrainingRun, activations, estimate
from ascend_doctor.planning.weights import vocabulary
from tests.acceptance import clones
from tests.programs import load_module

CATALOG = Catalog()
RELEASE, FILE = "core_v0.15.3", "megatron/training/theoretical_memory_usage.py"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """megatron/training/theoretical_memory_usage.py of Megatron-LM."""
    folder = tmp_path_factory.mktemp("megatron")
    clones.unpack(folder, "NVIDIA/Megatron-LM", RELEASE, FILE)
    path = folder / FILE
    package = types.ModuleType("theirs")
    package.__path__ = [str(path.parent)]
    utils = types.ModuleType("theirs.utils")
    utils.print_rank_0 = lambda *_: None  # type: ignore[attr-defined]
    sys.modules |= {"theirs": package, "theirs.utils": utils}
    return load_module(path, "theirs.memory")


def arguments(model: Model, layout: Layout, training: TrainingRun) -> SimpleNamespace:
    return SimpleNamespace(
        kv_channels=model.head_dim,
        num_attention_heads=model.heads,
        hidden_size=model.hidden,
        group_query_attention=True,
        num_query_groups=model.kv_heads,
        num_experts=model.experts or None,
        moe_layer_freq=1,
        moe_ffn_hidden_size=model.expert_ffn,
        moe_shared_expert_intermediate_size=model.shared_ffn or None,
        swiglu=True,
        mtp_num_layers=None,
        multi_latent_attention=False,
        ffn_hidden_size=model.ffn,
        num_layers=model.layers,
        padded_vocab_size=vocabulary(model, layout) * layout.tp,
        untie_embeddings_and_output_weights=not model.tied,
        pipeline_model_parallel_size=layout.pp,
        tensor_model_parallel_size=layout.tp,
        data_parallel_size=layout.dp * layout.cp,
        use_distributed_optimizer=True,
        seq_length=training.sequence,
        micro_batch_size=training.micro_batch,
        virtual_pipeline_model_parallel_size=None,
    )


@pytest.mark.parametrize("name", ["qwen3-8b", "llama-3.1-8b", "qwen3-32b"])
@pytest.mark.parametrize("layout", [Layout(npus=8, tp=4), Layout(npus=8, tp=2, pp=2)])
def test_dense_states_agree_with_megatrons_estimate(
    theirs: ModuleType, name: str, layout: Layout
) -> None:
    model, training = find(CATALOG, name), TrainingRun(sequence=4096)
    ours = estimate(model, layout, training, recompute=False)
    states = ours.weights + ours.gradients + ours.optimizer
    other = theirs.compute_weight_and_optimizer_memory(arguments(model, layout, training))
    assert states == pytest.approx(other, rel=0.001)


def test_megatrons_estimate_does_not_know_expert_parallelism(theirs: ModuleType) -> None:
    model, training = find(CATALOG, "qwen3-30b-a3b"), TrainingRun(sequence=4096)
    alone, spread = Layout(npus=8, tp=2), Layout(npus=8, tp=2, ep=4)
    their = theirs.compute_weight_and_optimizer_memory(arguments(model, spread, training))
    same = theirs.compute_weight_and_optimizer_memory(arguments(model, alone, training))
    assert their == same
    ours = estimate(model, alone, training, recompute=False)
    states = ours.weights + ours.gradients + ours.optimizer
    assert states == pytest.approx(same, rel=0.002)
    split = estimate(model, spread, training, recompute=False)
    # The experts are a fourth; their optimizer states, alone on their rank now, are shared no more.
    assert 0.5 < (split.weights + split.gradients + split.optimizer) / same < 0.55


@pytest.mark.parametrize(("name", "share"), [("qwen3-8b", 1.23), ("llama-3.1-8b", 1.18)])
def test_activations_differ_from_megatrons_as_documented(
    theirs: ModuleType, name: str, share: float
) -> None:
    model, layout, training = find(CATALOG, name), Layout(npus=8, tp=4), TrainingRun(sequence=4096)
    ours = activations(model, layout, training, 0, recompute=False)
    other = theirs.compute_activation_memory(arguments(model, layout, training), None)
    assert ours / other == pytest.approx(share, abs=0.02)
