import binascii
import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.provision.env_format import FAILURE, SHELLS, Change, text
from ascend_doctor.provision.env_undo import NAME, before, changes_to, undone
from tests.provision.hostile import TRAPS, VALUES
from tests.provision.shells import compare_environments, environments, run

OLD = st.none() | VALUES
# fish keeps lists of folders apart at their colons, and PATH for itself.
NAMES = ("MEGATRON_LM_PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "USE_MCORE_GDN", "X_1")
CASES = st.tuples(
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    st.dictionaries(st.sampled_from(NAMES), OLD, min_size=1),
)
# One shell runs this many cases: its start takes longer than a case.
BATCH, BATCHES = 50, 4

HARD = settings(
    max_examples=BATCHES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
BASE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def with_changes(environ: dict[str, str], changes: Iterable[Change]) -> dict[str, str]:
    variables = dict(environ)
    for change in changes:
        if change.value is None:
            variables.pop(change.name, None)
        else:
            variables[change.name] = change.value
    return variables


def as_changes(environ: dict[str, str]) -> list[Change]:
    return [Change(name, environ.get(name), "a test") for name in (*NAMES, NAME)]


Cases = list[tuple[dict[str, str], dict[str, "str | None"]]]


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@HARD
@given(cases=st.lists(CASES, min_size=BATCH, max_size=BATCH))
def test_any_value_is_set_exactly_and_taken_back_exactly_and_nothing_runs(
    shell: str, tmp_path: Path, cases: Cases
) -> None:
    exactly(shell, "C.UTF-8", tmp_path, cases)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@settings(HARD, max_examples=1)
@given(cases=st.lists(CASES, min_size=BATCH, max_size=BATCH))
def test_so_it_is_where_the_locale_knows_ascii_only(
    shell: str, tmp_path: Path, cases: Cases
) -> None:
    exactly(shell, "C", tmp_path, cases)


def exactly(shell: str, locale: str, tmp_path: Path, cases: Cases) -> None:
    scripts, expected = [], []
    # A shell may add variables.
    base = environments(shell, [""], tmp_path / "empty", BASE | {"LC_ALL": locale})[0]
    for old, new in cases:
        clean = base | old
        changes = changes_to(clean, [Change(name, value, name) for name, value in new.items()])
        there = with_changes(clean, changes)
        back = undone(there)
        assert with_changes(there, back) == clean
        present = [change for change in as_changes(clean) if change.value is not None]
        scripts += [text(part, shell) for part in (present, changes, back)]
        expected += [clean, there, clean]
        gone = [Change(change.name, None, "a test") for change in present]
        scripts.append(text(gone, shell))
        expected.append(base)
    compare_environments(environments(shell, scripts, tmp_path / "empty", base), expected)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_part_of_a_script_sets_nothing_and_runs_nothing(shell: str, tmp_path: Path) -> None:
    whole = text([Change("A", "1", "it's"), Change("B", "$(>ran)'\n", "`>ran`")], shell)
    folder = tmp_path / "empty"
    folder.mkdir()
    # An error of eval ends sh.
    form = "(eval {}; /usr/bin/env)" if shell == "sh" else "eval {}"
    parts = (quote(whole[:size], shell) for size in range(1, len(whole) - 1))
    evaluated = "\n".join(map(form.format, parts))
    done = run(shell, f"{evaluated}\n/usr/bin/env".encode(), folder, BASE)
    names = {line.partition(b"=")[0] for line in done.stdout.splitlines()}
    assert b"PATH" in names
    assert not names & {b"A", b"B"}
    assert list(folder.iterdir()) == []


def quote(value: str, shell: str) -> str:
    """One word, quoted without the tested code."""
    if shell == "fish":
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + value.replace("'", "'\"'\"'") + "'"


@pytest.mark.parametrize("shell", SHELLS)
def test_functions_named_like_what_is_used_are_passed_by(shell: str, tmp_path: Path) -> None:
    if shell == "fish":
        masks = "function true; touch ran; end\n"  # set and builtin are reserved words
    elif shell == "sh":
        masks = "printf() { >ran; }\ntrue() { >ran; }\nalias export='>ran'\n"
    else:
        masks = "export() { >ran; }\nunset() { >ran; }\ntrue() { >ran; }\nalias export='>ran'\n"
    scripts = [
        masks + text([Change("A", "1\r", "a test")], shell),
        text([Change("A", None, "")], shell),
    ]
    own, *after = environments(shell, ["", *scripts], tmp_path / "empty", BASE)
    assert after == [own | {"A": "1\r"}, own]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("change", [Change("A", "1", "a test"), Change("B", None, "a test")])
def test_a_function_named_builtin_makes_it_fail(shell: str, change: Change, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    (tmp_path / "part").write_text(text([change], shell))
    script = f"builtin() {{ :; }}\n. '{tmp_path}/part'\nprintf %s \"$?\""
    done = run(shell, script.encode(), folder, BASE | {"B": "1"})
    assert done.stdout == b"1"
    done = run(shell, script.partition("\n")[2].encode(), folder, BASE | {"B": "1"})
    assert done.stdout == b"0"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_failure_is_a_false_status_and_nothing_else(shell: str, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    done = run(shell, FAILURE.encode(), folder, BASE)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_read_only_variable_stops_the_script_with_a_false_status(
    shell: str, tmp_path: Path
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    script = text([Change("A", "1", ""), Change("B", "1", ""), Change("C", "1", "")], shell)
    (tmp_path / "part").write_text(script)
    done = run(
        shell, f"readonly B=0\n. '{tmp_path}/part'\nprintf %s \"$?$C\"".encode(), folder, BASE
    )
    assert b"read" in done.stderr
    assert not done.stdout.startswith(b"0")
    assert not done.stdout.endswith(b"01")


@pytest.mark.parametrize("shell", SHELLS)
def test_no_raw_control_character_reaches_a_terminal(shell: str) -> None:
    hostile = "".join(TRAPS)
    script = text([Change("A", hostile, hostile)], shell)
    assert all(line.isprintable() for line in script.split("\n"))


def test_json_tells_every_value_and_what_to_take_out() -> None:
    loaded = json.loads(text([Change("A", "路 '\n", "why"), Change("B", None, "gone")], "json"))
    assert loaded == {
        "schema": 1,
        "variables": [
            {"name": "A", "value": "路 '\n", "because": "why"},
            {"name": "B", "value": None, "because": "gone"},
        ],
    }


def test_dotenv_is_what_docker_and_kubectl_read() -> None:
    value = "/opt/a b/$HOME/'\"#\\路"
    lines = text([Change("A", value, "why"), Change("B", "", "empty")], "dotenv").splitlines()
    read = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert read == {"A": value, "B": ""}


@pytest.mark.parametrize("value", ["a\nB=1", "\x1b", None, os.fsdecode(b"\xff")])
def test_dotenv_refuses_what_it_cannot_hold(value: str | None) -> None:
    with pytest.raises(DoctorError, match=r"^A |take A"):
        text([Change("A", value, "why")], "dotenv")


def test_json_refuses_what_is_no_text() -> None:
    with pytest.raises(DoctorError, match=r"^A is no UTF-8"):
        text([Change("A", os.fsdecode(b"\xff"), "why")], "json")


@pytest.mark.slow
@given(CASES)
def test_applying_again_changes_nothing(case: tuple[dict[str, str], dict[str, str | None]]) -> None:
    old, new = case
    expected = [Change(name, value, name) for name, value in new.items()]
    first = changes_to(old, expected)
    there = with_changes(old, first)
    assert changes_to(there, expected) == first
    assert before(there) == old


def test_another_stack_takes_the_place_of_the_first() -> None:
    old = {"A": "old", "B": "old", "PATH": "/bin"}
    first = with_changes(old, changes_to(old, [Change("A", "1", ""), Change("B", "1", "")]))
    second = with_changes(
        first, changes_to(first, [Change("A", "2", ""), Change("PATH", "/x:/bin", "")])
    )
    assert {name: second[name] for name in old} == {"A": "2", "B": "old", "PATH": "/x:/bin"}
    assert with_changes(second, undone(second)) == old


@pytest.mark.parametrize(
    ("later", "undone_is"),
    [
        ("/ours:/bin", "/bin"),
        ("/conda/bin:/ours:/bin", "/conda/bin:/bin"),
        ("/ours:/bin:/more", "/bin:/more"),
        ("/ours:/conda:/bin", "/conda:/bin"),
        ("/elsewhere", "/elsewhere"),
        ("/ours", "/bin"),
    ],
)
def test_what_others_added_since_stays(later: str, undone_is: str) -> None:
    old = {"PATH": "/bin"}
    there = with_changes(old, changes_to(old, [Change("PATH", "/ours:/bin", "")]))
    assert before(there | {"PATH": later}) == {"PATH": undone_is}


def test_a_value_that_was_changed_since_stays() -> None:
    there = with_changes({}, changes_to({}, [Change("A", "1", ""), Change("B", "1", "")]))
    assert before(there | {"A": "2"}) == {"A": "2"}
    del there["B"]
    assert [change.name for change in undone(there)] == ["A", NAME]


def test_nothing_is_undone_where_nothing_was_done() -> None:
    assert undone({"A": "1"}) == []


@given(st.text(st.characters(max_codepoint=127)) | st.binary().map(lambda data: data.hex()))
def test_a_damaged_memory_is_an_error_in_one_line(memory: str) -> None:
    with pytest.raises(DataError, match=NAME):
        undone({NAME: memory})


@pytest.mark.parametrize(
    "rows", [[], {"A;>ran": ["1", "2"]}, {"A": ["1"]}, {"A": ["1", 2]}, {"A": "12"}, {"A": [1, 2]}]
)
def test_a_memory_that_another_wrote_becomes_no_command(rows: object) -> None:
    memory = binascii.b2a_base64(zlib.compress(json.dumps(rows).encode()), newline=False).decode()
    with pytest.raises(DataError, match=NAME):
        undone({NAME: memory})


def test_an_environment_that_is_too_large_to_be_saved_is_refused() -> None:
    noise = os.urandom(200_000).hex()
    with pytest.raises(DoctorError, match="too large"):
        changes_to({"A": noise}, [Change("A", "1", "")])
