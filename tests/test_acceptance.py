"""`python -m tests.acceptance`: its manifest is whole, and its exit codes say what was run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.errors import DataError
from tests.acceptance.needs import MANIFEST, load
from tests.programs import run_program
from tests.provision.small_world import git

TESTS = Path(__file__).parent
HERE = TESTS / "acceptance"
SCHEMA = "sarif-2.1/schema/sarif-schema-2.1.0.json"
STRICT = '{"properties": {"$schema": {}, "version": {}, "runs": {}}, "additionalProperties": false}'
# Fixtures of the whole run, labelled logs, and marks of processes, which no test is skipped for.
DRAWS = "^from tests.knobs import .*draw"
ORDINARY = {"PYTHON", "LOGS", "SAMPLES", "MARK", "WHOLE", "SEED", "RECORD"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(
        [sys.executable, "-m", "tests.acceptance", *arguments],
        check=False,
        cwd=TESTS.parent,
        env={**os.environ, "ASCEND_DOCTOR_TEST_CLONES": str(folder / "clones")},
    )


def make_mirror(folder: Path, schema: str) -> None:
    work = folder / "work"
    (work / SCHEMA).parent.mkdir(parents=True)
    (work / SCHEMA).write_text(schema)
    git("init", "-q", at=work)
    git("add", ".", at=work)
    git("commit", "-q", "-m", "schema", at=work)
    git("clone", "-q", "--bare", work, folder / "mirror" / "oasis-tcs+sarif-spec" / "repo")


def test_every_acceptance_test_is_in_the_manifest() -> None:
    listed = {name for need in load().needs for name in need.files}
    assert {str(path.relative_to(TESTS)) for path in HERE.rglob("test_*.py")} <= listed
    assert [name for name in listed if not (TESTS / name.partition("::")[0]).is_file()] == []


def test_every_table_with_rows_to_draw_is_in_the_manifest() -> None:
    files = {name.partition("::") for name in load().need("whole-tables").files}
    drawing = [
        path
        for path in TESTS.rglob("test_*.py")
        if re.search(DRAWS, path.read_text(), re.MULTILINE)
    ]
    assert {str(path.relative_to(TESTS)) for path in drawing} == {file for file, *_ in files}
    for file, _, test in files:
        assert f"def {test}" in (TESTS / file).read_text()


def test_a_repository_that_a_test_reads_is_of_one_of_its_needs() -> None:
    manifest = load()
    for path in HERE.rglob("test_*.py"):
        file = str(path.relative_to(TESTS))
        known = {
            name for need in manifest.needs if file in need.files for name in need.repositories
        }
        calls = re.findall(r"(?:clone|show|unpack)\([^()]*?\"([\w-]+/[\w.-]+)\"", path.read_text())
        assert {*calls} <= known, path


def test_the_repositories_of_labelled_launches_are_in_the_manifest() -> None:
    known = {name for need in load().needs for name in need.repositories}
    for path in (HERE / "linting").glob("*.yaml"):
        (rows,) = msgspec.yaml.decode(path.read_bytes()).values()
        assert {row["repository"] for row in rows} <= known, path


def test_no_ordinary_test_waits_for_a_variable() -> None:
    for path in TESTS.rglob("*.py"):
        if HERE not in path.parents and path != Path(__file__):
            names = set(re.findall(r"ASCEND_DOCTOR_TEST_([A-Z_]*[A-Z])", path.read_text("utf-8")))
            assert names <= ORDINARY, path


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("minutes: 0\n", "minutes: 0\n    hours: 3\n", "unknown field `hours`"),
        ("id: mindspeed\n", "id: megatron-lm\n", "needs with the same id: megatron-lm"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "manifest.yaml"
    text = re.sub(r"minutes: [\d.]+\n", "minutes: 0\n", MANIFEST.read_text("utf-8"))
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=re.escape(words)):
        load(path)


@pytest.mark.slow
@pytest.mark.parametrize(("schema", "code", "row"), [(STRICT, 0, "1 0 1"), ("{}", 1, "0 1 1")])
def test_a_need_is_cloned_and_its_tests_are_counted(
    tmp_path: Path, schema: str, code: int, row: str
) -> None:
    make_mirror(tmp_path, schema)
    done = run(tmp_path, "report-schemas", "--fetch", "--from", str(tmp_path / "mirror"))
    assert "jenkinsci/xunit-plugin: not in " in done.stdout, done.stdout + done.stderr
    assert f"report-schemas {row} " in re.sub(" +", " ", done.stdout)
    assert (tmp_path / "clones/oasis-tcs+sarif-spec/repo/HEAD").is_file()
    assert done.returncode == (code or 3)


@pytest.mark.slow
def test_what_cannot_run_is_no_success(tmp_path: Path) -> None:
    absent = run(tmp_path, "triton-ascend")
    assert (absent.returncode, "no clone of triton-lang/triton-ascend" in absent.stdout) == (
        3,
        True,
    )
    assert run(tmp_path, "--list").returncode == 0
    wrong = run(tmp_path, "nonsense")
    assert (wrong.returncode, "no need is called 'nonsense'" in wrong.stderr) == (2, True)
