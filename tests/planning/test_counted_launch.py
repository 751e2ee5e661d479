"""`plan --run` and `plan --sweep`: launches run at their true size, and what they take counts."""

import json
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from click.testing import CliRunner

from ascend_doctor.commands import plan
from ascend_doctor.commands.counted_launch import CountedRun, TriedLayout, list_layouts
from ascend_doctor.commands.planned_launch import LaunchPage, judge_launches
from ascend_doctor.matrix.catalog import Catalog
from tests.planning.test_planned_launch import script
from tests.present import present
from tests.simulator.test_rank_records import GIB, record

PROGRAM = Path(__file__).parent / "programs" / "pretrain_gpt.py"


def counted(reserved: int = 0, **more: Any) -> CountedRun:
    ranks = (record(0, reserved - GIB, 2),) if reserved else ()
    return CountedRun(memory=60 * GIB, seconds=1.0, ranks=ranks, **more)


def judge(folder: Path, **options: Any) -> LaunchPage:
    return judge_launches((script(folder, **options),), Catalog(), "")


@pytest.mark.parametrize(
    ("run", "fits", "code", "says"),
    [
        (counted(20 * GIB), True, 0, "It fits: an NPU has at most 20 GiB of 60 GiB reserved"),
        (counted(58 * GIB), None, 3, "It is too close to tell: an NPU has at most 58 GiB"),
        (counted(58 * GIB, out_of_memory="NPU out of memory. Tried"), False, 1, "does not fit"),
        (counted(uncounted="no compiler"), None, 3, "by the formulas alone: no compiler"),
        (counted(20 * GIB, interrupted=True), True, 130, "It fits"),
    ],
)
def test_what_was_counted_decides(
    tmp_path: Path, run: CountedRun, fits: bool | None, code: int, says: str
) -> None:
    page = msgspec.structs.replace(judge(tmp_path), counted=run)
    text = "\n".join(page.describe())
    assert (run.fits, page.exit_code()) == (fits, code)
    assert says in text.splitlines()[0]
    assert "estimated: It fits: " in text
    assert len(text.splitlines()) <= 15


def test_the_best_layouts_are_those_of_plan_with_other_micro_batches(tmp_path: Path) -> None:
    page = judge(tmp_path, global_batch_size=64, micro_batch_size=2)
    layouts = list_layouts(present(page.judged[0].plan), page.where, 6)
    assert len({each.name for each in layouts}) == 6
    assert {each.micro_batch for each in layouts} == {1, 2, 4}
    assert layouts[0].micro_batch == 2
    for each in layouts:
        layout = each.estimated.layout
        words = " ".join(each.options)
        assert f"--tensor-model-parallel-size {layout.tp} " in f"{words} "
        assert f"--micro-batch-size {each.micro_batch}" in words
        assert ("--sequence-parallel" in words) == (layout.tp > 1)
        assert 64 % (layout.dp * each.micro_batch) == 0


def test_layouts_are_ranked_by_what_was_counted(tmp_path: Path) -> None:
    page = judge(tmp_path)
    runs = [
        None,
        counted(uncounted="refused"),
        counted(59 * GIB, out_of_memory="NPU out of memory."),
        counted(58 * GIB),
        counted(30 * GIB),
        counted(20 * GIB),
    ]
    layouts = list_layouts(present(page.judged[0].plan), page.where, len(runs))
    tried = [
        msgspec.structs.replace(*pair[:1], run=pair[1]) for pair in zip(layouts, runs, strict=True)
    ]
    ranked = tuple(sorted(tried, key=TriedLayout.order))
    assert [each.run for each in ranked] == runs[::-1]
    text = list(msgspec.structs.replace(page, tried=ranked).describe())
    assert "1. " in text[3]
    assert "not tried" in text[8]


def test_what_runs_needs_a_launch_and_a_stack_needs_a_run(tmp_path: Path) -> None:
    for words in (["qwen3-8b", "--run"], [script(tmp_path), "--python", "python"]):
        done = CliRunner().invoke(plan.command, words)
        assert done.exit_code == 2, done.output


class Plan(Protocol):
    def __call__(self, *words: str, **options: Any) -> tuple[int, dict[str, Any]]: ...


@pytest.fixture
def run_plan(examined_python: Path, tmp_path: Path) -> Plan:
    def run(*words: str, **options: Any) -> tuple[int, dict[str, Any]]:
        path = Path(script(tmp_path, global_batch_size=64, **options))
        text = path.read_text().replace("pretrain_gpt.py", str(PROGRAM))
        path.write_text(text)
        asked = [str(path), *words, "--python", str(examined_python), "--format", "json"]
        done = CliRunner().invoke(plan.command, asked, standalone_mode=False)
        return done.return_value, json.loads(done.stdout)

    return run


@pytest.mark.slow
def test_a_launch_is_counted_at_its_true_size(run_plan: Plan) -> None:
    code, answer = run_plan("--run")
    run = answer["counted"]
    assert (code, run["fits"], run["uncounted"]) == (0, True, "")
    (rank,) = run["ranks"]
    assert rank["steps"] == 2
    # Weights, gradients and two moments of 4096 x 512, and the input.
    assert rank["allocated"] >= 4 * (4 * 4096 * 512 + 4096 * 4096)
    assert any("pretrain_gpt.py" in line for line in rank["lines"])


@pytest.mark.slow
def test_out_of_memory_does_not_fit(run_plan: Plan) -> None:
    code, answer = run_plan("--run", micro_batch_size=1024)
    assert (code, answer["counted"]["fits"]) == (1, False)
    assert answer["counted"]["out_of_memory"].startswith("NPU out of memory. Tried to allocate 64")


@pytest.mark.slow
def test_a_run_that_fails_says_why(run_plan: Plan) -> None:
    code, answer = run_plan("--run", refused="")
    assert code == 3
    assert "refused as Megatron does" in answer["counted"]["uncounted"]


@pytest.mark.slow
def test_layouts_run_in_the_place_of_the_launch(run_plan: Plan) -> None:
    code, answer = run_plan("--sweep", "2", hidden_size=8192, ffn_hidden_size=22016)
    assert (code, answer["counted"]) == (0, None)
    sizes = {}
    for each in answer["tried"]:
        assert each["run"]["fits"], each
        sizes[each["estimated"]["layout"]["tp"], each["micro_batch"]] = each["run"]["reserved"]
    assert len(sizes) == len(set(sizes.values())) == 2
