"""Every data file of tests/ and matrices/ has one row in origins.yaml: who wrote it."""

from fnmatch import fnmatch
from pathlib import Path

from ascend_doctor.machine.parsing import read_yaml
from tests.house import tracked_files

ORIGINS = read_yaml(Path(__file__).with_name("origins.yaml"))["origins"]
PATTERNS = [pattern for row in ORIGINS for pattern in row["files"]]
DETAIL = {"own": "what", "quoted": "what", "run": "by", "facts": "of"}


def data_files() -> list[str]:
    paths = [path for path in tracked_files() if path.parts[0] in ("tests", "matrices")]
    return sorted(str(path) for path in paths if path.suffix != ".py")


def test_each_data_file_has_one_origin() -> None:
    matches = {file: [name for name in PATTERNS if fnmatch(file, name)] for file in data_files()}
    assert {file: names for file, names in matches.items() if len(names) != 1} == {}


def test_each_origin_has_files_and_a_detail() -> None:
    files = data_files()
    assert [name for name in PATTERNS if not any(fnmatch(file, name) for file in files)] == []
    assert [row for row in ORIGINS if set(row) != {"files", "kind", DETAIL[row["kind"]]}] == []
