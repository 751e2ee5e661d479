"""What is written for others to run: batch scripts and lines to type."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.cli import run
from ascend_doctor.errors import DataError
from ascend_doctor.fleet.batch import directive, script
from ascend_doctor.fleet.torchrun_lines import lines

WORDS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), min_codepoint=32), min_size=1, max_size=20
)
HOSTILE = ["it's", "$(touch x)", "`touch x`", "a b", "-n", "#x", "\\", '"', "a\nb", "*", "~", "&&"]


def as_sbatch(line: str) -> list[str]:
    """The words of a line as sbatch takes them: quotes, and a backslash before any character.

    After the description of get_argument in SchedMD/slurm@284c3b95: src/sbatch/opt.c, for what
    ``directive`` writes: no backslash outside of quotes.
    """
    words: list[str] = []
    rest = line.removeprefix("#SBATCH ")
    while rest := rest.lstrip(" "):
        assert not rest.startswith((":", "hetjob", "packjob", "#"))
        word, quote, offset = "", "", 0
        while offset < len(rest) and (quote or rest[offset] != " "):
            character = rest[offset]
            if character == "\\":
                assert quote
                offset += 1
                word += rest[offset]
            elif character == quote:
                quote = ""
            elif not quote and character in "\"'":
                quote = character
            else:
                assert quote or character != "#"
                word += character
            offset += 1
        assert not quote
        words.append(word)
        rest = rest[offset:]
    return words


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_sbatch_reads_the_words_that_were_given(words: list[str]) -> None:
    line = directive(*words)
    assert "\n" not in line
    assert as_sbatch(line) == words


@pytest.mark.parametrize("word", ["", "a\nb", "a\x1b[2J", "a\rb", "\x00"])
def test_what_no_line_can_have_is_refused(word: str) -> None:
    with pytest.raises(DataError):
        directive("--comment", word)


def record_call(text: str, folder: Path) -> tuple[list[str], str]:
    """Run a batch script as its node would; gives the arguments that the doctor got."""
    done = subprocess.run(
        ["sh", "-c", text],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7"},
    )
    return done.stdout.split("\0"), done.stderr


@pytest.mark.parametrize("word", HOSTILE)
def test_a_batch_script_passes_words_on_as_they_are(tmp_path: Path, word: str) -> None:
    doctor = tmp_path / "it's the doctor"
    doctor.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    doctor.chmod(0o755)
    base = tmp_path / f"to {word.replace('/', '_')}"
    text = script([["--nodes=2"]], [str(doctor)], ["--only", word], folder=str(base))
    arguments, errors = record_call(text, tmp_path)
    folder = f"{base}/ascend-doctor-7"
    assert not errors
    assert arguments[:5] == ["fleet", "check", "--slurm", "--only", word]
    assert arguments[5:9] == ["--reports", f"{folder}/nodes", "--lists", folder]
    assert Path(folder, "nodes").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name == "x") == []


@given(st.lists(st.one_of(WORDS, st.sampled_from(HOSTILE)), min_size=1, max_size=3, unique=True))
def test_lines_for_nodes_are_the_words_that_were_meant(nodes: list[str]) -> None:
    for rank, (node, line) in enumerate(lines(nodes, ["doctor"], ["-l", "3"], port=29500)):
        words = shlex.split(line)
        assert node == nodes[rank]
        assert words[:4] == ["mkdir", "-p", "reports", "&&"]
        assert words[words.index("--node-rank") + 1] == str(rank)
        assert words[words.index("--rdzv-endpoint") + 1] == f"{nodes[0]}:29500"
        file = words[-1].removeprefix("reports/").removesuffix(".json")
        assert file == node.replace("/", "_")


def test_a_line_for_every_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node[1-2] slots=8\n../x;y\n")
    assert run(["fleet", "torchrun", "--hosts", str(hosts), "-l", "3", "--nproc", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2][:3] == ["# on node1", "# on node2", "# on ../x;y"]
    assert "--nproc 8" in lines[1]
    assert "--nnodes 3 --node-rank 1 --rdzv-endpoint node1:29511" in lines[3]
    assert lines[5].endswith("-o 'reports/.._x;y.json'")
    assert lines[-1] == f"ascend-doctor merge reports --expect {hosts} --by-file"
    # What is printed is taken.
    assert run([*shlex.split(lines[1])[5:], "--help"]) == 0


def test_nodes_are_for_the_job_alone_where_it_probes_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node[1-2]\n")
    for options, alone in (((), True), (("-l", "1"), False)):
        assert run(["fleet", "sbatch", "--expect", str(hosts), *options]) == 0
        rows = capsys.readouterr().out.splitlines()
        assert ("#SBATCH --exclusive" in rows) == alone
        assert {"#SBATCH --nodes=2", "#SBATCH --nodelist=node[1-2]"} <= {*rows}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("sbatch",), "give either --nodes N or --expect HOSTFILE"),
        (("sbatch", "--nodes", "2", "--", "--comment", "a\nb"), "cannot stand in a batch script"),
        (("sbatch", "--nodes", "2", "--doctor", "'"), "--doctor"),
        (("check",), "give --ray or --slurm"),
        (("check", "--ray", "--slurm"), "give --ray or --slurm"),
        (("check", "--ray", "auto", "--", "--partition", "x"), "--slurm"),
        (("check", "--slurm", "--nodes", "2", "--expect", "pyproject.toml"), "exclude each other"),
        (("check", "--slurm", "--reports", "pyproject.toml"), "--reports pyproject.toml"),
        (("torchrun", "--hosts", "none"), "none"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert run(["fleet", *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_old_reports_are_not_taken_for_new_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node1.json").write_text("{}")
    assert run(["fleet", "check", "--slurm", "--nodes", "1", "--reports", str(tmp_path)]) == 2
    assert "holds node1.json; give an empty folder" in capsys.readouterr().err
