"""Rules of launches: names are options, expressions evaluate, and unknown values stay open."""

import ast

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.checks.launch.option_names import has_key
from ascend_doctor.checks.launch.rules import (
    ABSENT,
    DERIVED,
    UNKNOWN,
    LaunchNames,
    evaluate,
    plain_name,
)
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case
from ascend_doctor.linting.inputs import of_command, subjects
from ascend_doctor.linting.launch_checks import findings, machine
from ascend_doctor.matrix.catalog import Catalog

CATALOG = Catalog()
RULES = CATALOG.rules
CHECKS = tuple(check for check in all_checks() if check.id in {g.check for g in RULES.groups})
# Functions of expressions, what is computed of a launch, and an attribute that features set.
OWN = frozenset(
    (
        *("given", "total", "count", "starts", "splits_layers", *DERIVED),
        *("use_layer_wise_distributed_optimizer", "deepspeed", "checkpoint_engine.backend"),
        "router_replay.mode",
    )
)
GPT = "torchrun --nproc_per_node 8 pretrain_gpt.py --lr 1 "
PPO = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "


def names(script: str) -> LaunchNames:
    (subject,) = subjects("a.sh", script.encode(), CATALOG)
    return LaunchNames(Case(facts=Snapshot(launch=subject.launch), catalog=CATALOG))


def reports(command: str) -> dict[str, Level]:
    (subject,) = of_command(command.split(), CATALOG)
    judged = findings(subject, machine("0.15.3", ""), CATALOG, CHECKS)
    return {each.check: each.level for each in judged if each.level is not Level.OK}


def test_each_name_of_a_rule_is_an_option() -> None:
    flags = CATALOG.flags
    tables = (*flags.some.values(), *(table.options for table in CATALOG.options.tables))
    known = {plain_name(name) for table in (flags.every, *tables) for name in table}
    known |= {plain_name(name) for name in flags.launcher}
    expressions = (
        ast.parse(text, mode="eval")
        for group in RULES.groups
        for rule in group.rules
        for text in (rule.when, rule.needs, *(rule.divides or ())[1:])
        if text
    )
    names_ = {ast.unparse(n) for each in expressions for n in ast.walk(each) if is_name(n)}
    # Within a dotted name there are others.
    names_ -= {name.rpartition(".")[0] for name in names_}
    dotted = {RULES.key(name) for name in names_ if "." in name}
    assert {name for name in names_ if "." not in name} - known - OWN == set()
    open_ = "reward_model.reward_kwargs."
    assert {
        key
        for key in dotted
        if not has_key(CATALOG.override_keys, key) and not key.startswith(open_)
    } <= OWN


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)


def test_each_expression_evaluates_without_options() -> None:
    bare = names("torchrun --nproc_per_node 8 pretrain_gpt.py --bf16\n")
    for group in RULES.groups:
        for rule in group.rules:
            for text in filter(None, (rule.when, rule.needs)):
                evaluate(text, bare)
            assert rule.divides or (rule.title and rule.needs)
            assert ":" in RULES.source(rule)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("num_layers % 3 == 0", False),
        ("hidden_size % 3 == 0", UNKNOWN),
        ("hidden_size % 3 == 0 or num_layers > 1", True),
        ("hidden_size % 3 == 0 and num_layers == 1", False),
        ("ffn_hidden_size > 1", ABSENT),
        ("not (ffn_hidden_size > 1)", ABSENT),
        ('total("4,8") == 12', True),
    ],
)
def test_an_answer_may_be_open(expression: str, answer: object) -> None:
    script = "torchrun pretrain_gpt.py --num-layers 8 --hidden-size $H --bf16\n"
    assert evaluate(expression, names(script)) is answer


@pytest.mark.parametrize(
    ("command", "check"),
    [
        (GPT + "--bf16 --fp16", "run-arguments"),
        (GPT + "--train-iters 5 --train-samples 5", "run-arguments"),
        (PPO + "actor_rollout_ref.actor.loss_agg_mode=token_mean", "run-verl-values"),
        ("megatron sft --model x --tp_comm_overlap true --lr 1", "run-swift-values"),
    ],
)
def test_a_rule_finds_its_mistake(command: str, check: str) -> None:
    assert reports(command).get(check) is Level.ERROR


def test_a_fork_is_judged_by_the_oldest_validations_only() -> None:
    fork = GPT + "--own-thing 3 --other-thing 4 "
    assert reports(fork + "--bf16 --fp16")["run-arguments"] is Level.ERROR
    flash = "--deterministic-mode --use-flash-attn"
    assert reports(fork + flash).get("run-arguments") is not Level.ERROR
    assert reports(GPT + flash)["run-arguments"] is Level.ERROR
