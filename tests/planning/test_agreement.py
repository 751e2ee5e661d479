"""What `plan` takes passes `lint` as a launch, and what it refuses does not."""

import random
from collections import Counter

import msgspec
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Level
from ascend_doctor.linting.inputs import of_command
from ascend_doctor.linting.launch_checks import findings, machine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.models import Model, every
from ascend_doctor.planning.flags import megatron as options_of
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import TrainingRun, estimate
from ascend_doctor.planning.ranking import RankedLayout
from ascend_doctor.planning.rules import LayoutQuery, broken

CATALOG = Catalog()
# Megatron-LM's own script names no heads of gated delta nets.
MODELS = tuple(model for model in every(CATALOG) if model.delta is None)
SIZES = ("run-world-size", "run-experts-divide", "run-heads-divide", "run-layers-divide")
JUDGES = (*SIZES, "run-sequence-divides", "ep-expert-cap", "run-moe-needs-sp")
CHECKS = tuple(check for check in all_checks() if check.id in JUDGES)
COUNT = 2000


def random_model(dice: random.Random) -> Model:
    model = dice.choice(MODELS)
    return msgspec.structs.replace(
        model,
        layers=dice.choice((model.layers, dice.randrange(1, 64))),
        heads=(heads := dice.choice((model.heads, 12, 24, 40))),
        kv_heads=dice.choice((1, 2, 4, heads)),
        experts=dice.choice((model.experts, 6, 160, 512)) if model.experts else 0,
        expert_ffn=dice.choice((model.expert_ffn, 1000)) if model.experts else 0,
    )


def random_layout(dice: random.Random, model: Model) -> Layout:
    sizes = (1, 1, 2, 4, 8, 3)
    npus = dice.choice((8, 16, 24, 32, 64, 128))
    tensor, stages, context, experts = (dice.choice(sizes) for _ in range(4))
    split = dice.choice((0, 1, 2, tensor))
    if not model.experts:
        experts, split = 1, 0
    return Layout(npus=npus, tp=tensor, pp=stages, cp=context, ep=experts, etp=split)


def command(asked: LayoutQuery, layout: Layout) -> list[str]:
    model = asked.model
    memory = estimate(MODELS[0], Layout(npus=1), asked.run, recompute=False)
    choice = RankedLayout(layout=layout, memory=memory, fits=None, crosses=(), experts=0)
    groups = (
        f"--group-query-attention --num-query-groups {model.kv_heads}"
        if model.latent is None
        else "--multi-latent-attention"
    )
    experts = (
        f"--num-experts {model.experts} --moe-router-topk 2 --moe-ffn-hidden-size "
        f"{model.expert_ffn}"
        if model.experts
        else ""
    )
    whole = (
        f"torchrun --nproc_per_node {layout.npus} pretrain_gpt.py --num-layers {model.layers} "
        f"--num-attention-heads {model.heads} --kv-channels {model.head_dim} {groups} {experts} "
        + " ".join(options_of(asked, choice))
    )
    return whole.split()


@pytest.mark.slow
@pytest.mark.parametrize("release", ["", "0.12.1", "0.15.3", "0.16.1"])
def test_plan_and_lint_agree(release: str) -> None:
    dice = random.Random(f"2026-11-22 {release}")
    base = machine(release, "")
    count: Counter[tuple[bool, bool]] = Counter()
    for _ in range(COUNT // 4):
        model = random_model(dice)
        run = TrainingRun(sequence=dice.choice((4096, 4096, 8192, 1000, 6144)))
        asked, layout = (
            LayoutQuery(model=model, run=run, megatron=release),
            random_layout(dice, model),
        )
        refused = [rule.text for rule in broken(asked, layout)]
        judged = findings(of_command(command(asked, layout), CATALOG)[0], base, CATALOG, CHECKS)
        wrong = [each.title for each in judged if each.level in {Level.ERROR, Level.WARNING}]
        count[bool(refused), bool(wrong)] += 1
        heads = "TP divides the key and value heads"
        # Legal from 0.16 on: `plan` takes what every release takes, `lint` cannot tell.
        if not release and len(refused) == 1 and refused[0].startswith(heads) and not wrong:
            assert layout.tp % model.kv_heads == 0
            continue
        assert bool(refused) == bool(wrong), (layout, model, run, refused, wrong)
    print(release, dict(count))  # noqa: T201
    assert min(count[True, True], count[False, False]) >= COUNT // 40
