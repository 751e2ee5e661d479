from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from ascend_doctor.probe_results import ProbeRun
from tests.probes.judged import judge_probes
from tests.probes.started import start_probe


def judge_run(run: ProbeRun) -> list[tuple[Level, str]]:
    findings = judge_probes(run, check=run.probe)
    return [(finding.level, finding.title.removeprefix(f"{run.probe}: ")) for finding in findings]


FINALIZE = (
    "import importlib\n"
    "module = importlib.import_module('megatron.core.distributed.finalize_model_grads')\n"
)
# Each removes what the probe is there for; a table's first line is the sound run.
PROBES: dict[str, dict[str, tuple[str, str]]] = {
    "lora-sequence-parallel": {
        "sound": ("", ""),
        "gradients of parts of a sequence are not added up": (
            FINALIZE + "module._allreduce_non_tensor_model_parallel_grads = lambda *_, **__: None",
            "the losses are wrong under TP2 with sequence parallelism",
        ),
    },
    "lora-experts": {
        "sound": ("", ""),
        "the groups take TP for ETP": (
            (
                "from megatron.core import parallel_state\n"
                "initialise = parallel_state.initialize_model_parallel\n"
                "def forgetful(**sizes):\n"
                "    sizes.pop('expert_tensor_parallel_size')\n"
                "    initialise(**sizes)\n"
                "parallel_state.initialize_model_parallel = forgetful"
            ),
            "expert tensor parallel ranks hold different adapters",
        ),
    },
    "lora-tied-embeddings": {
        "sound": ("", ""),
        # As up to 0.12.3.
        "the gradient of the frozen weight is added up": (
            FINALIZE + "import torch\n"
            "from megatron.core import parallel_state\n"
            "def unguarded(model, *_):\n"
            "    if parallel_state.get_pipeline_model_parallel_world_size() > 1:\n"
            "        torch.distributed.all_reduce(None)\n"
            "module._allreduce_word_embedding_grads = unguarded",
            "LoRA in a pipeline with tied embeddings fails",
        ),
    },
    "expert-shapes": {
        "sound": ("", ""),
        "the configuration follows the groups": (
            (
                "from megatron.core.transformer import transformer_config as module\n"
                "finish = module.TransformerConfig.__post_init__\n"
                "def told(self):\n"
                "    from megatron.core import parallel_state\n"
                "    finish(self)\n"
                "    size = parallel_state.get_expert_tensor_parallel_world_size()\n"
                "    self.expert_tensor_parallel_size = size\n"
                "module.TransformerConfig.__post_init__ = told"
            ),
            "experts are cut otherwise with ETP given to configuration only",
        ),
    },
}


@pytest.mark.parametrize(
    ("probe", "name"), [(probe, name) for probe, cases in PROBES.items() for name in cases]
)
def test_lora_on_the_real_megatron(
    forked_megatron: Path, tmp_path: Path, probe: str, name: str
) -> None:
    mutation, expected = PROBES[probe][name]
    # Two ranks for experts, times two for their tensors.
    ranks = 4 if probe == "lora-experts" else 2
    run = start_probe(forked_megatron, probe, ranks=ranks, mutation=mutation, folder=tmp_path)
    rows = judge_run(run)
    if not mutation:
        assert [level for level, _ in rows] == [Level.OK]
        return
    assert expected in {title for level, title in rows if level in {Level.ERROR, Level.WARNING}}


def test_a_rank_that_has_another_group(forked_megatron: Path) -> None:
    fault = "rank=1,stage=expert of both,do=value"
    run = start_probe(forked_megatron, "expert-shapes", ranks=2, fault=fault)
    assert judge_run(run) == [(Level.ERROR, "experts are cut otherwise with ETP given to both")]


def test_one_rank_has_no_tensor_parallel_neighbour(forked_megatron: Path) -> None:
    for probe in PROBES:
        run = start_probe(forked_megatron, probe)
        assert "even number of ranks" in run.ranks[0].skipped
