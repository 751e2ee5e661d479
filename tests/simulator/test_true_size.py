import re
import subprocess
from pathlib import Path
from typing import Protocol

import pytest

from ascend_doctor.simulator.rank_records import RECORDS, read_records
from tests.simulator.conftest import PROGRAMS, Run

PROGRAM = PROGRAMS / "at_true_size.py"


def test_memory_is_counted_and_not_taken(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    done = simulate(examined_python, PROGRAM, "train", env={RECORDS: str(tmp_path)}, memory=4 << 30)
    assert done.stdout.split("\n")[:3] == ["weights 128", "states 384", "grown True"], done.stderr
    (record,) = read_records(tmp_path)
    assert record.steps == 2
    assert record.allocated >= 640 << 20
    assert any("at_true_size.py" in line for line in record.lines)


def test_what_programs_decide_by_has_values(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    done = simulate(
        examined_python, PROGRAM, "values", env={RECORDS: str(tmp_path)}, memory=4 << 30
    )
    assert done.stdout.splitlines() == [
        "integers 149797",
        "masked [1.0, 3.0]",
        "small of large 0.0 torch.Size([4096, 4096])",
        "experts {512}",
    ], done.stderr


def test_too_much_is_refused_in_torch_npus_own_words(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    done = simulate(
        examined_python, PROGRAM, "exhaust", env={RECORDS: str(tmp_path)}, memory=2 << 30
    )
    assert "NPU out of memory. Tried to allocate 3.00 GiB" in done.stderr


class Start(Protocol):
    def __call__(self, mode: str, real: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def start(simulate: Run, examined_python: Path, tmp_path: Path) -> Start:
    def run(mode: str, real: str) -> subprocess.CompletedProcess[str]:
        launch = ("-m", "ascend_simulator.ranks", 4, 4, real, PROGRAM, mode)
        return simulate(examined_python, *launch, env={RECORDS: str(tmp_path)}, haste=20)

    return run


def test_a_rank_of_each_kind_is_as_all_ranks(start: Start) -> None:
    whole, part = start("communicate", "0,1,2,3"), start("communicate", "0,2")
    assert (whole.returncode, part.returncode) == (0, 0), whole.stderr + part.stderr
    of_whole, of_part = (set(done.stdout.splitlines()) for done in (whole, part))
    assert len(of_whole) == 4
    assert of_part == {line for line in of_whole if re.match("rank [02] ", line)}


def test_ranks_that_disagree_are_found(start: Start) -> None:
    done = start("disagree", "0,1")
    assert done.returncode
    assert "EI0005" in done.stderr
