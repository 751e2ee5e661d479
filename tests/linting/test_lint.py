import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.collect.snapshot import take
from ascend_doctor.facts import UNTOLD
from ascend_doctor.findings import Level
from ascend_doctor.linting.bash import commands
from ascend_doctor.linting.inputs import of_command, subjects
from ascend_doctor.linting.launch_checks import findings
from ascend_doctor.render.formats import FORMATS
from tests.conftest import Command
from tests.level0.machine import machine as recorded
from tests.linting.judged import CATALOG, CHECKS, judge_inputs, judge_text

RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def words(script: str) -> list[list[str]]:
    return [[word.text for word in each.words] for each in commands(script.encode())]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("A=1\nrun $A ${A} \"$A\" '$A'", ["run", "1", "1", "1", "$A"]),
        ("A='x y'\nrun $A \"$A\"", ["run", "x", "y", "x y"]),
        ('A=(x "y z")\nA+=(w)\nrun "${A[@]}"', ["run", "x", "y z", "w"]),
        ('A="--x 1 \\\n --y 2"\nrun ${A[@]}', ["run", "--x", "1", "--y", "2"]),
        ('A="x y"\nrun "${A[@]}" "${A[*]}"', ["run", "x y", "x y"]),
        ('run "${A[@]}"', ["run", UNTOLD]),
        ('A="--x $B --y 2"\nrun ${A[@]}', ["run", "--x", UNTOLD, "--y", "2"]),
        ('A="--x $B"\nrun "${A[@]}"', ["run", UNTOLD]),
        ("A=${B:-2}\nrun $A ${C:-$A}", ["run", "2", "2"]),
        ("A=2\nB=$((A * 4 + 1))\nrun $B $((B/A))", ["run", "9", "4"]),
        ("run $UNSET a${UNSET}b", ["run", UNTOLD, f"a{UNTOLD}b"]),
        ("A=$(ls)\nrun $A", ["run", UNTOLD]),
        ('A="\n --x 1 \\\n --y 2"\nrun $A', ["run", "--x", "1", "--y", "2"]),
        ("if c; then A=1; else A=2; fi\nrun $A", ["run", UNTOLD]),
        ("if c; then A=1; else A=1; fi\nrun $A", ["run", "1"]),
        ("A=1\nif c; then A=2; fi\nrun $A", ["run", UNTOLD]),
        ("A=1\nf() { run $A; }\nA=2\nf", ["run", "2"]),
        ("A='run x'\neval $A", ["run", "x"]),
        ("A=1\n(A=2)\nrun $A", ["run", "1"]),
        ("A=1; run $A > log 2>&1 &", ["run", "1"]),
        ("run ü $A", ["run", "ü", UNTOLD]),
        (
            'A="--x 1"\nB=--y\nC="$B $A  \\\n $B z"\nrun $C',
            ["run", "--y", *["--x", "1", "--y", "z"]],
        ),
        (
            'A=(--x 1)\nB=2\nC="r ${A[@]} \\\n ${B} \\\n ${A[@]}"\neval $C',
            ["r", "--x", "1", "2", "--x", "1"],
        ),
    ],
)
def test_the_words_of_a_command_are_those_of_the_shell(script: str, expected: list[str]) -> None:
    assert words(script)[-1] == expected


def test_words_know_where_they_stand() -> None:
    script = "A='ü'\nB=\"$A --x 1\n   --tp 2\"\nrun $B"
    (run,) = (command for command in commands(script.encode()) if command.words[0].text == "run")
    places = {word.text: (word.line, word.column) for word in run.words}
    assert places == {"run": (4, 1), "ü": (1, 4), "--x": (2, 7), "1": (2, 11)} | {
        "--tp": (3, 4),
        "2": (3, 9),
    }


def test_characters_beyond_the_basic_plane_keep_places() -> None:
    (run,) = commands("A='\U00045317🚀' # 🚀\nrun 🚀 $A --x".encode())
    assert (run.words[-1].text, run.words[-1].line, run.words[-1].column) == ("--x", 2, 10)


def test_variables_are_exported_or_not() -> None:
    script = "A=1\nexport B=2\nexport A\nC=3\nU=5\nD=4 run $U"
    run = commands(script.encode())[-1]
    assert {name: word.text for name, word in run.exported.items()} == {
        "A": "1",
        "B": "2",
        "D": "4",
    }
    assert set(run.own) == {"C"}


PIECES = st.sampled_from(
    [
        *("export ", "A", "=", "${", "}", "$((", "))", "$(", ")", "(", "[@]", '"', "'", "\\", "\n"),
        *("torchrun ", "pretrain_gpt.py ", "--tensor-model-parallel-size ", "0", "8", "9" * 30),
        *("if ", "then ", "fi", "for x in ", "do ", "done", "f() {", "eval ", ":-", "+=", "<<E\n"),
        *("kind: Job\n", "apiVersion: v1\n", "- &a [*a, ", "? ", "| \n", "{{", "env:", "\t", "\r"),
        *(
            "import ",
            "def f(:\n",
            "\x1b[31m",
            "\x00",
            "\u202e",
            "ü",
            "\ufffc",
            "-m verl.x ",
            ".a=1 ",
        ),
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=40).map("".join)


@pytest.mark.slow
@settings(max_examples=150)
@given(text=TEXTS, ending=st.sampled_from([".sh", ".yaml", ".py", ""]))
def test_nothing_makes_lint_raise_or_emit_controls(text: str, ending: str) -> None:
    content = text.encode("utf-8", "surrogatepass")
    for finding in judge_text(f"x{ending}", content, "0.15.3", "Ascend910B3"):
        assert "the check itself failed" not in finding.title, finding


@settings(max_examples=25)
@given(data=st.binary(max_size=200), ending=st.sampled_from([".sh", ".yaml", ".py"]))
def test_any_bytes_are_read(data: bytes, ending: str) -> None:
    subjects(f"x{ending}", data, CATALOG)


@pytest.mark.parametrize(
    "script",
    [
        "A=x\n" + "A=$A$A\n" * 60 + "torchrun pretrain_gpt.py $A",
        "A=(x)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + 'torchrun pretrain_gpt.py "${A[@]}"',
        "f() { f; f; torchrun x; }\nf",
        "(" * 2000 + "a" + ")" * 2000,
        "$((" * 500 + "1" + "))" * 500,
        "if a; then " * 300 + "torchrun x" + "; fi" * 300,
        'torchrun pretrain_gpt.py "' + "${A:-" * 800 + "}" * 800 + '"',
    ],
)
def test_a_script_cannot_grow_without_end(script: str) -> None:
    assert len(commands(script.encode())) <= 2000
    subjects("x.sh", script.encode(), CATALOG)


def test_anchors_of_yaml_cannot_grow_without_end() -> None:
    rows = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert subjects("x.yaml", "\n".join(rows).encode(), CATALOG) == ()


SCRIPT = (
    "NAME=$'\\e[31m'\nexport HCCL_CONNECT_TIMEOUT='\x1b[31m60\u202e'\n"
    "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 3 --bf16\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_free_of_controls(doctor: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT, "utf-8")
    done = doctor("lint", "train.sh", "--format", name, "--no-redact", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout
    assert not RAW.search(done.stdout.replace("\n", "").replace("\t", ""))
    assert "\u202e" not in done.stdout


@pytest.mark.slow
def test_sarif_has_the_places(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT, "utf-8")
    done = doctor("lint", "train.sh", "--format", "sarif", cwd=tmp_path)
    (run,) = json.loads(done.stdout)["runs"]
    places = {
        result["ruleId"]: result["locations"][0]["physicalLocation"]
        for result in run["results"]
        if result["level"] == "error"
    }
    assert places["run-world-size"] == {
        "artifactLocation": {"uri": "train.sh"},
        "region": {"startLine": 3, "startColumn": 45},
    }
    assert places["variables-valid"]["region"]["startLine"] == 2


@pytest.mark.slow
def test_a_command_is_judged_as_a_script_is(doctor: Command) -> None:
    command = [
        "torchrun",
        "--nproc_per_node",
        "8",
        "pretrain_gpt.py",
        "--tensor-model-parallel-size",
        "3",
    ]
    done = doctor("lint", "--", *command)
    assert done.returncode == 1
    assert "command:1:45" in done.stdout
    same = doctor("check", "-l", "0", "--only", "run-world-size", "--", *command)
    assert "TP·PP·CP is 3, which does not divide 8 ranks" in same.stdout


def test_torchrun_of_a_file_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    titles = judge_inputs(of_command(["torchrun", "trian.py"], CATALOG))
    assert "trian.py does not exist" in {each.title for each in titles}


def test_a_script_that_starts_a_file_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "src").mkdir()
    here = 'cd "$(dirname "$0")"\n'
    absent = {
        "torchrun train.py": "",
        "torchrun trian.py": "trian.py",
        "torchrun src/train.py": "src/train.py",
        f"{here}torchrun pretrain_gpt.py": "pretrain_gpt.py",
        f"{here}cd src\ntorchrun ../train.py": "",
        # Where the script is started is not known.
        "torchrun /nowhere/train.py": "",
        "cd $WORK\ntorchrun trian.py": "",
        "if $A; then cd src; fi\ntorchrun trian.py": "",
    }
    script = tmp_path / "run.sh"
    for text, expected in absent.items():
        script.write_text(text, "utf-8")
        inputs = subjects(str(script), text.encode(), CATALOG)
        titles = {each.title: each.location for each in judge_inputs(inputs)}
        missing = [title for title in titles if title.endswith("does not exist")]
        assert missing == ([f"{expected} does not exist"] if expected else []), text


def test_a_path_of_megatron_that_is_not_there() -> None:
    script = (
        b"export MEGATRON_LM_PATH=/nowhere\nexport PYTHONPATH=$MEGATRON_LM_PATH:\nmegatron sft\n"
    )
    here = take(recorded("healthy-a2"), CATALOG)
    inputs = subjects("a.sh", script, CATALOG)
    titles = {row.title for each in inputs for row in findings(each, here, CATALOG, CHECKS)}
    assert "MEGATRON_LM_PATH names another Megatron than the one that is imported" in titles
    assert "PYTHONPATH has an empty entry, which stands for the current folder" in titles


def test_good_bad_and_nothing_have_their_codes(doctor: Command, tmp_path: Path) -> None:
    good = "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --bf16\n"
    (tmp_path / "good.sh").write_text(good, "utf-8")
    (tmp_path / "nothing.sh").write_text("# nothing\n", "utf-8")
    judged = doctor("lint", "good.sh", "--megatron", "0.15.3", cwd=tmp_path)
    assert judged.returncode == 0
    assert judged.stderr.count("lint --exact") == 1
    assert doctor("lint", "nothing.sh", cwd=tmp_path).returncode == 3
    (tmp_path / "shell.sh").write_text("echo $HOME\n", "utf-8")
    shell = doctor("lint", "shell.sh", cwd=tmp_path)
    assert shell.returncode == 0
    assert "No launch of a training is known here" in shell.stderr
    assert doctor("lint", "missing.sh", cwd=tmp_path).returncode == 2
    assert doctor("lint", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.sh", b"\x7fELF\0\0", "a.sh: not a text file (NUL at byte 4); give a launch script"),
        ("a.sh", " \n", "a.sh: nothing is in it; give what starts the training"),
        ("a.json", "{}", "a.json: JSON is judged with the script that names it"),
        ("d/README", "x", "d: no script, YAML or Python program in it"),
    ],
)
def test_what_is_no_launch_is_bad_usage(
    doctor: Command, tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = doctor("lint", str(file if file.parent == tmp_path else file.parent))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_what_is_no_text_is_left_out_of_a_folder_aloud(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "b.sh").write_text("export HCCL_CONNECT_TIMEOUT=abc\ntorchrun train.py\n")
    done = doctor("lint", str(tmp_path))
    assert done.returncode == 1
    assert "a.sh: not a text file" in done.stderr


def test_yaml_that_cannot_be_read_is_not_well(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "b.sh").write_text("torchrun --nproc_per_node 8 train.py\n")
    done = doctor("lint", ".", cwd=tmp_path)
    assert done.returncode == 3
    assert "a.yaml cannot be read as YAML" in done.stdout
    assert " in line 2, column " in done.stdout


def test_the_remedy_for_a_variable_of_a_script_is_its_line() -> None:
    script = "IF=eth0\nexport HCCL_OP_EXPANSION_MODE=AIV\ntorchrun pretrain_gpt.py --bf16\n"
    judged = [
        finding
        for finding in judge_text("run.sh", script)
        if finding.check == "variables-harmful" and finding.level is Level.WARNING
    ]
    assert [each.remedy and each.remedy.commands for each in judged] == [()]
    assert "line 2" in (judged[0].remedy.summary if judged[0].remedy else "")
