"""What a script leaves to its shell is said, with the line and with what was not judged."""

from pathlib import Path

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import read
from ascend_doctor.linting.sourcing import changes_nothing, folder_of_script
from tests.linting.judged import judge_text

SIZES = ("run-world-size", "run-heads-divide", "run-layers-divide", "run-batch-divides")
LAUNCH = """torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 \\
  --pipeline-model-parallel-size 1 --context-parallel-size 1 --expert-model-parallel-size 1 \\
  --num-layers 4 --num-attention-heads 8 --hidden-size 64 --micro-batch-size 1 \\
  --global-batch-size 8 --bf16 {}
"""


def lint_script(script: str, path: str = "train.sh", *, allow: bool = False) -> dict[str, Finding]:
    judged = judge_text(path, script, "0.15.3", "Ascend910B3", allow=allow)
    return {finding.check: finding for finding in judged}


@pytest.mark.parametrize(
    ("script", "line", "source", "check"),
    [
        (LAUNCH.format("--num-layers $LAYERS"), 4, "$LAYERS", "run-layers-divide"),
        (LAUNCH.format('--global-batch-size "$((2 * N))"'), 4, "$((2 * N))", "run-batch-divides"),
        (LAUNCH.format("$MORE_ARGS"), 4, "$MORE_ARGS", "run-layers-divide"),
        (LAUNCH.format("--bf16$MORE"), 4, "$MORE", "run-layers-divide"),
        ('A="--bf16"\nB="$A \\\n  $MORE"\n' + LAUNCH.format("$B"), 3, "$MORE", "run-layers-divide"),
        (
            "TP=$(nproc)\n" + LAUNCH.format("--tensor-model-parallel-size $TP"),
            1,
            "$(nproc)",
            SIZES[0],
        ),
        (
            "TP=2\nsource sizes.sh\n" + LAUNCH.format("--tensor-model-parallel-size $TP"),
            2,
            "source sizes.sh",
            "run-heads-divide",
        ),
        (
            "if big; then H=64; else H=8; fi\n" + LAUNCH.format("--num-attention-heads $H"),
            1,
            "$H, set in one branch only",
            "run-heads-divide",
        ),
        (
            "f() {\nshift\n" + LAUNCH.format('"$@"') + "}\nf 8 --num-layers 3",
            6,
            "$@",
            "run-layers-divide",
        ),
        (
            "A=(--bf16)\nif big; then\n  A+=(\n    --num-layers 5\n  )\nfi\n"
            + LAUNCH.format('"${A[@]}"'),
            4,
            "$A, set in one branch only",
            "run-layers-divide",
        ),
        (
            'A="--bf16"\nif big; then\n  A="$A --num-layers 5"\nfi\n' + LAUNCH.format("$A"),
            3,
            "$A, set in one branch only",
            "run-layers-divide",
        ),
    ],
)
def test_what_is_left_to_the_shell_is_said(script: str, line: int, source: str, check: str) -> None:
    finding = lint_script(script)["launch-resolved"]
    assert finding.level is Level.UNKNOWN
    assert finding.location is not None
    assert finding.location.line == line
    assert f"`{source}`" in finding.observed
    assert check in finding.because
    allowed = lint_script(script, allow=True)["launch-resolved"]
    assert allowed.level is Level.SKIPPED
    assert check in allowed.because


@pytest.mark.parametrize(
    "script",
    [
        LAUNCH.format('--save "$OUT" --load ${CKPT} --data-path $DATA'),
        LAUNCH.format('"$@"'),
        "source /usr/local/Ascend/ascend-toolkit/set_env.sh\n" + LAUNCH.format(""),
        "source ${ASCEND_BASE:-/usr/local/Ascend}/nnal/atb/set_env.sh\n" + LAUNCH.format(""),
        "source ~/.bashrc; source venv/bin/activate\n" + LAUNCH.format(""),
        "source sizes.sh\n" + LAUNCH.format(""),
    ],
)
def test_what_no_check_needs_is_no_matter(script: str) -> None:
    findings = lint_script(script)
    assert findings["launch-resolved"].level is Level.OK
    assert {findings[check].level for check in SIZES} == {Level.OK}


def test_a_file_beside_the_script_is_followed(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    text = 'HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\nsource $HERE/lib/sizes.sh\n'
    script.write_text(text + LAUNCH.format("--num-layers $LAYERS $MODEL_ARGS"), "utf-8")
    sizes = tmp_path / "lib" / "sizes.sh"
    sizes.parent.mkdir()
    sizes.write_text('LAYERS=5\n\nMODEL_ARGS="\n --pipeline-model-parallel-size 2\n"\n', "utf-8")
    findings = lint_script(read(str(script)).decode(), str(script))
    assert findings["launch-resolved"].level is Level.OK
    wrong = findings["run-layers-divide"]
    assert wrong.level is Level.ERROR
    assert wrong.location is not None
    assert (wrong.location.file, wrong.location.line) == (str(sizes), 4)


def test_files_that_source_each_other_end(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("source train.sh\n" + LAUNCH.format("--num-layers 3"), "utf-8")
    assert lint_script(read(str(script)).decode(), str(script))["launch-resolved"].level is Level.OK


def test_known_sizes_are_judged_beside_unknown_ones() -> None:
    findings = lint_script(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 3 "
        "--pipeline-model-parallel-size $PP --context-parallel-size 1"
    )
    assert findings["run-world-size"].level is not Level.OK
    assert findings["launch-resolved"].level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("target", "changes"),
    [
        ("/usr/local/Ascend/cann-9.0.0/set_env.sh", False),
        ("/usr/local/Ascend/nnal/atb/set_env.sh", False),
        ("<(ascend-doctor env --prefix x)", False),
        ("./set_env.sh", True),
        ("examples/model/set_env_npu.sh", True),
        ("env_npu.sh", True),
        ("/opt/activate_sizes.sh", True),
    ],
)
def test_files_of_known_effect(target: str, changes: bool) -> None:
    assert changes_nothing(target) is not changes


@pytest.mark.parametrize(
    ("expression", "right"),
    [
        ('$(dirname "$0")', True),
        ('$(dirname -- "${BASH_SOURCE[0]}")', True),
        ('$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)', True),
        ('$(cd -- "$(dirname "$0")" >/dev/null 2>&1 && pwd -P)', True),
        ('$(dirname "$(readlink -f "$0")")', True),
        ("${BASH_SOURCE%/*}", True),
        ('$(dirname "$1")', False),
        ("$(pwd)", False),
        ('$(cd "$(dirname "$0")/.." && pwd)', False),
    ],
)
def test_the_folder_of_the_script(expression: str, right: bool) -> None:
    assert folder_of_script(expression) is right


@pytest.mark.parametrize(
    "head",
    [
        "A=()\nif big; then\n  A+=(--save x)\nelse\n  A+=(--load x)\nfi\n",
        "case $1 in\n a) A=(--load x);;\n *) A=(--load y --save z);;\nesac\n",
        "DEBUG=0\nif [ $DEBUG = 1 ]; then\n  A=(--num-layers 3)\nelse\n  A=(--bf16)\nfi\n",
        "N=8\nif [[ $N -gt 4 ]]; then A=(--bf16); else A=(--num-layers $N1); fi\n",
        "A=(--bf16)\nif big; then\n  A=(--num-layers 3)\n  exit 1\nfi\n",
        'f() { echo "$1"; A=("$@"); }\nf --bf16 --lr 1\n',
    ],
)
def test_a_branch_makes_unknown_only_what_it_changes(head: str) -> None:
    findings = lint_script(head + LAUNCH.format('"${A[@]}"'))
    assert findings["launch-resolved"].level is Level.OK
    assert {findings[check].level for check in SIZES} == {Level.OK}


@pytest.mark.parametrize(
    "branches",
    [
        'case "$DEVICE" in\n gpu|cuda) N=3;;\n npu) N=8;;\n *) exit 1;;\nesac\n',
        'case $(detect) in\n "NPU") N=8;;\n *) N=3;;\nesac\n',
        'N=8\nif [ "$DEVICE" = gpu ]; then N=3; fi\n',
        'if [[ $DEVICE == "npu" ]]; then N=8; else N=3; fi\n',
        'if [ "$DEVICE" != NPU ]; then N=3; else N=8; fi\n',
        "SIZE=7b\ncase $SIZE in\n 32*) N=3;;\n 7b|14b) N=8;;\n *) N=5;;\nesac\n",
        "SIZE=7b\nN=8\ncase $SIZE in\n 32b) N=3;;\nesac\n",
    ],
)
def test_of_branches_on_the_device_that_of_npus_is_judged(branches: str) -> None:
    launch = LAUNCH.replace("_node 8", "_node $N").format("--save x")
    assert lint_script(branches + launch)["run-world-size"].level is Level.OK
    wrong = lint_script(branches.replace("N=8", "N=3") + launch)["run-world-size"]
    assert wrong.level is Level.ERROR
    unknown = branches.replace("npu", "two").replace("NPU", "two").replace("gpu", "one")
    unknown = unknown.replace("SIZE=7b", "SIZE=$1")
    assert lint_script(unknown + launch)["launch-resolved"].level is Level.UNKNOWN


def test_an_arm_that_only_the_shell_knows_may_be_the_one() -> None:
    branches = "SIZE=7b\ncase $SIZE in\n $1) N=3;;\n 7b) N=8;;\nesac\n"
    launch = LAUNCH.replace("_node 8", "_node $N").format("--save x")
    assert lint_script(branches + launch)["launch-resolved"].level is Level.UNKNOWN


def test_a_mistake_in_a_branch_is_found_there() -> None:
    script = "A=()\nif big; then\n  A+=(\n    --num-layer 8\n  )\nfi\n" + LAUNCH.format('"${A[@]}"')
    wrong = lint_script(script)["run-flags-known"]
    assert wrong.level is Level.ERROR
    assert wrong.location is not None
    assert wrong.location.line == 4


def test_arguments_of_a_function_are_those_of_its_call() -> None:
    script = "f() {\n" + LAUNCH.format('--num-layers $1 "${@}"') + "}\nf 3 --seed 1"
    assert lint_script(script)["run-layers-divide"].level is Level.OK
    script = (
        "f() {\n" + LAUNCH.format("--num-layers $1 --pipeline-model-parallel-size 2") + "}\nf 3"
    )
    wrong = lint_script(script)["run-layers-divide"]
    assert wrong.level is Level.ERROR


def test_sizes_of_a_model_file_are_not_judged() -> None:
    script = (
        "torchrun --nproc_per_node 8 pretrain_vlm.py --tensor-model-parallel-size 2 "
        "--expert-model-parallel-size {} --mm-model model.json --bf16\n"
    )
    for experts in (1, 2):
        judged = judge_text("run.sh", script.format(experts), "0.12.1")
        assert not [each for each in judged if each.level is Level.ERROR]
        (finding,) = [each for each in judged if each.level is Level.UNKNOWN]
        assert "--mm-model model.json" in finding.observed
        assert "run-heads-divide" in finding.because
        assert "run-world-size" not in finding.because
