import pytest

from ascend_doctor.facts import Library, PathEntry
from ascend_doctor.findings import Level
from tests.checks.machine import having, healthy, only, run, set_to


@pytest.mark.parametrize(
    ("rank", "size", "level"),
    [
        ("", "", Level.SKIPPED),
        ("3", "8", Level.OK),
        ("0", "1", Level.OK),
        ("a", "b", Level.OK),
        ("0", "", Level.WARNING),
        ("", "8", Level.WARNING),
        ("8", "8", Level.WARNING),
    ],
)
def test_variables_of_a_launcher(rank: str, size: str, level: Level) -> None:
    finding = only("launcher-variables", set_to(healthy(), RANK=rank, WORLD_SIZE=size), level)
    assert (finding.remedy is not None) == (level is Level.WARNING)


def test_preloaded_libraries() -> None:
    there, gone = Library(name="libgomp.so.1", path="/usr/lib/x"), Library(name="/opt/lib.so")
    assert (
        run("ld-preload", having(healthy(), "environment", preloaded=(there,)))[0].level is Level.OK
    )
    both = having(healthy(), "environment", preloaded=(there, gone))
    only("ld-preload", both, Level.WARNING, "LD_PRELOAD names /opt/lib.so, which is not there")


def test_pythonhome_of_another_python_is_a_warning() -> None:
    assert run("python-home", healthy())[0].level is Level.SKIPPED
    facts = having(healthy(), "python", prefix="/venv", base_prefix="/usr")
    only("python-home", set_to(facts, PYTHONHOME="/opt/old"), Level.WARNING, "/opt/old", "/usr")
    assert run("python-home", set_to(facts, PYTHONHOME="/usr/"))[0].level is Level.OK


def test_folders_of_path_that_are_not_searched() -> None:
    assert run("search-path", healthy())[0].level is Level.SKIPPED
    assert run("search-path", having(healthy(), "environment", path_left_out=()))[0].level is (
        Level.OK
    )
    entry = PathEntry(text=".", reason="it is relative", programs=("npu-smi",))
    facts = having(healthy(), "environment", path_left_out=(entry,))
    only("search-path", facts, Level.WARNING, "PATH has an entry that is not safe: .")
