"""Property over every answer: a launch that could not be judged is never fine, beside any other."""

from itertools import permutations, product

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Check
from ascend_doctor.linting.exact import (
    _Answer,
    _PartAnswer,
    _RefusalAnswer,
    _with_answer,
    mark_unasked,
    split_launch,
)
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, unique
from ascend_doctor.report import verdict
from tests.linting.judged import CATALOG, CHECKS

MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --num-attention-heads 16 "
    "--hidden-size 1024 --micro-batch-size 1 --bf16 --tensor-model-parallel-size "
)
LAUNCHES = (
    *(f"{MEGATRON}{more}" for more in ("2", "3", "$TP", "2 --own-a 1 --own-b 2", "2 $(cat more)")),
    *("torchrun train.py", "torchrun $A", "accelerate launch train.py", "python tools/convert.py"),
    *("swift sft --model a/b", "megatron sft --model $M", "llamafactory-cli train a.yaml"),
    *("python -m verl.trainer.main_ppo trainer.nnodes=1", "python -m verl.trainer.main_ppo $KEYS"),
)
BY_SEVERITY = (0, 3, 1)


def judge(script: str, *chosen: Check) -> tuple[Finding, ...]:
    inputs = subjects("a.sh", script.encode(), CATALOG)
    judged = (findings(each, machine("", ""), CATALOG, chosen) for each in inputs)
    return unique(tuple(finding for each in judged for finding in each))


def code(judged: tuple[Finding, ...]) -> int:
    return verdict(judged, fail_on=Level.ERROR).exit_code


@pytest.mark.parametrize(
    "chosen", [*((each,) for each in CHECKS if each.scope == "launch"), CHECKS]
)
def test_the_worst_launch_decides(chosen: tuple[Check, ...]) -> None:
    alone = {launch: judge(launch, *chosen) for launch in LAUNCHES}
    codes = {
        launch: code(judged)
        for launch, judged in alone.items()
        if any(each.level is not Level.SKIPPED for each in judged)
    }
    for pair in permutations(codes, 2):
        together = code(unique((*alone[pair[0]], *alone[pair[1]])))
        assert together == max((codes[each] for each in pair), key=BY_SEVERITY.index), pair


def test_an_answer_that_did_not_pass_is_not_fine() -> None:
    for launch in ("torchrun train.py", "megatron export --model m"):
        (subject,) = subjects("a.sh", launch.encode(), CATALOG)
        assert (asked := mark_unasked(subject).launch) is not None
        assert asked.refusals, launch
    (subject,) = subjects("a.sh", f"{MEGATRON}2".encode(), CATALOG)
    parts = split_launch(subject)
    assert parts is not None
    ways = product((True, False), ("no such file", "odd"), ("", "FileNotFoundError: gone"), (0, 1))
    for failed, text, ended, count in ways:
        refusal = _RefusalAnswer("ValueError", text, [], [], "a.py", 1, "", failed=failed)
        part = _PartAnswer([refusal] * count, [], ended)
        for answer in (_Answer(program=part), _Answer(launcher=part), _Answer(failed=ended)):
            passed = answer.program is not None and not (count or ended)
            answered = _with_answer(subject, parts, answer)
            assert passed is (code(findings(answered, machine("", ""), CATALOG, CHECKS)) == 0), (
                answer
            )
