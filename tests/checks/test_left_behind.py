import pytest

from ascend_doctor.facts import Library, PathEntry
from ascend_doctor.findings import Level
from tests.checks.levels import check_level, passes, skips, warns
from tests.checks.machine import having, healthy, set_to


@pytest.mark.parametrize(
    ("rank", "size", "level"),
    [
        ("", "", Level.OK),
        ("3", "8", Level.OK),
        ("0", "1", Level.OK),
        ("a", "b", Level.OK),
        ("0", "", Level.WARNING),
        ("", "8", Level.WARNING),
        ("8", "8", Level.WARNING),
    ],
)
def test_variables_of_a_launcher(rank: str, size: str, level: Level) -> None:
    finding = check_level(
        level,
        "launcher-variables",
        set_to(healthy(), RANK=rank, WORLD_SIZE=size, MASTER_ADDR="a", MASTER_PORT="29500"),
    )
    assert (finding.remedy is not None) == (level is Level.WARNING)


def test_preloaded_libraries() -> None:
    there, gone = Library(name="libgomp.so.1", path="/usr/lib/x"), Library(name="/opt/lib.so")
    passes("ld-preload", having(healthy(), "environment", preloaded=(there,)))
    both = having(healthy(), "environment", preloaded=(there, gone))
    warns("ld-preload", both, "LD_PRELOAD names /opt/lib.so, which is not there")


def test_pythonhome_of_another_python_is_a_warning() -> None:
    skips("python-home", healthy())
    facts = having(healthy(), "python", prefix="/venv", base_prefix="/usr")
    warns("python-home", set_to(facts, PYTHONHOME="/opt/old"), "/opt/old", "/usr")
    passes("python-home", set_to(facts, PYTHONHOME="/usr/"))


def test_folders_of_path_that_are_not_searched() -> None:
    skips("search-path", healthy())
    passes("search-path", having(healthy(), "environment", path_left_out=()))
    entry = PathEntry(text=".", reason="it is relative", programs=("npu-smi",))
    facts = having(healthy(), "environment", path_left_out=(entry,))
    warns("search-path", facts, "PATH has an entry that is not safe: .")
