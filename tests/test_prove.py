import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.evidence import StackEvidence, StackRun, Stop
from ascend_doctor.matrix.lint import lint
from ascend_doctor.provision.lock import Proof
from tests import prove
from tests.programs import run_program
from tests.provision import small_world
from tests.provision.small_world import World
from tests.provision.test_lock import LOCK

ROW = "mindspeed-core-0.15.3"
RUN = StackRun(
    date="2026-11-22T00:00:00+00:00",
    tool_version="0.1.0",
    python="3.11",
    arch="x86_64",
    level=3,
    simulated=True,
    probes=("inspect-env",),
    losses={"smoke-train tp2": (4.9, 4.4)},
)


def change_run(**fields: Any) -> StackRun:
    return msgspec.structs.replace(RUN, **fields)


def test_a_run_says_of_a_row_what_it_has_seen() -> None:
    assert RUN.standing == "executed"
    assert change_run(failed=("smoke-train: the loss is NaN",)).standing == "contradicted"
    assert change_run(unknown=("level 3 did not run",)).standing == "documented"
    offline = Stop(step="environment", why="no index")
    assert change_run(stop=offline).standing == "documented"
    refused = Stop(step="plan", why="numpy", contradicts=True)
    assert change_run(stop=refused).standing == "contradicted"
    assert "stopped at plan: numpy" in change_run(stop=refused).summary


def test_a_newer_run_takes_the_place_of_the_one_with_its_subject() -> None:
    evidence = StackEvidence(schema=1, id=ROW)
    assert evidence.standing == "documented"
    evidence = evidence.add(change_run(failed=("a: b",))).add(RUN)
    assert (evidence.runs, evidence.standing) == ((RUN,), "executed")
    other = change_run(framework="verl", failed=("a: b",))
    assert evidence.add(other).standing == "contradicted"


def test_a_run_without_a_network_takes_the_place_of_no_proof() -> None:
    evidence = StackEvidence(schema=1, id=ROW, runs=(RUN,))
    offline = change_run(date="2026-11-23T00:00:00+00:00", stop=Stop(step="refs", why="no host"))
    assert evidence.add(offline) == evidence
    refuted = change_run(failed=("a: b",))
    assert StackEvidence(schema=1, id=ROW, runs=(refuted,)).add(offline).runs == (refuted,)
    assert StackEvidence(schema=1, id=ROW).add(offline).runs == (offline,)


@pytest.mark.slow
def test_verified_wants_a_run_on_an_npu(tmp_path: Path) -> None:
    row = read_yaml(Catalog().files("stacks")[ROW][0])
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / f"{ROW}.yaml").write_text(yaml.safe_dump({**row, "status": "verified"}))
    (tmp_path / "evidence").mkdir()
    for run, problems in ((RUN, 1), (change_run(simulated=False), 0)):
        content = StackEvidence(schema=1, id=ROW, runs=(run,))
        text = yaml.safe_dump({"schema": 1, **msgspec.to_builtins(content)})
        (tmp_path / "evidence" / f"{ROW}.yaml").write_text(text)
        assert len(lint(Catalog((tmp_path,)))) == problems
    (tmp_path / "evidence" / "nothing.yaml").write_text("schema: 1\nid: nothing\n")
    assert "no stack is called so" in str(lint(Catalog((tmp_path,))))


def test_a_lock_becomes_evidence_and_says_where_it_differs(tmp_path: Path) -> None:
    rows = Catalog()
    stack = rows.stack(ROW)
    proof = Proof(level=3, simulated=True, date=RUN.date, probes=("inspect-env",))
    versions = {"python": "3.11", "cann": "9.0.0", "numpy": "1.26.0"}
    conflict = {"twinkle:numpy": "twinkle needs numpy >=2; the stack has 1.26.0"}
    lock = msgspec.structs.replace(LOCK, rows=versions, proof=proof, accepted=conflict)
    run = prove._of_lock(RUN, lock, stack, rows)
    assert run.differs == (
        "python 3.11, where the row has ==3.10.*",
        "accepted: twinkle needs numpy >=2; the stack has 1.26.0",
    )
    assert run.checkouts == {checkout.name: checkout.commit for checkout in LOCK.checkouts}
    assert run.probes == ("inspect-env",)
    file = prove.write_run(stack, rows, run, tmp_path)
    assert Catalog((tmp_path,)).evidence(ROW).runs[0] == run
    assert file.read_text("utf-8").startswith("# Written by")


def test_every_stack_has_a_megatron_to_build_first() -> None:
    releases = {stack.id: prove._release(stack) for stack in Catalog().stacks}
    assert releases["mindspeed-core-0.16.0"] == "core_v0.16.0"
    assert releases["mindspeed-core-0.18"] == "core_v0.18.2"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world.make(tmp_path_factory.mktemp("prove"))


def prove_row(world: World, into: Path, *more: str, **env: str) -> tuple[int, dict[str, Any]]:
    words: list[str | Path] = [sys.executable, "-m", "tests.prove", ROW, *more]
    words += ["--matrix", world.rows, "--git-mirror", world.mirrors]
    done = run_program(
        [*words, "--into", into, "--prefix", into / "prefix"],
        check=False,
        timeout=1800,
        env={**world.env, **env},
        cwd=Path(__file__).parent.parent,
    )
    file = into / "evidence" / f"{ROW}.yaml"
    assert file.is_file(), done.stderr
    assert str(world.root) not in file.read_text("utf-8")
    return done.returncode, read_yaml(file)["runs"][0]


def test_rows_that_exclude_each_other_contradict_a_stack(world: World, tmp_path: Path) -> None:
    """The small world lacks torch_npu 2.7.1.post4."""
    code, run = prove_row(world, tmp_path)
    assert (code, run["stop"]["step"], run["stop"]["contradicts"]) == (1, "plan", True)


def test_a_framework_that_no_row_names_contradicts_nothing(world: World, tmp_path: Path) -> None:
    code, run = prove_row(world, tmp_path, "--framework", "verl")
    assert (code, run["stop"]["step"]) == (3, "plan")
    assert "contradicts" not in run["stop"]


def test_what_stops_a_setup_tells_nothing_of_the_row(world: World, tmp_path: Path) -> None:
    row = read_yaml(Catalog().files("stacks")[ROW][0])
    row["components"] |= {"torch-npu": "==2.13.0", "torch": "==2.13.0"}
    (world.rows / "stacks").mkdir()
    (world.rows / "stacks" / f"{ROW}.yaml").write_text(yaml.safe_dump(row))
    (world.rows / "evidence").mkdir()
    (world.rows / "evidence" / f"{ROW}.yaml").write_text(yaml.safe_dump({"schema": 1, "id": ROW}))
    code, run = prove_row(world, tmp_path, PIP_FIND_LINKS="/nowhere")
    assert (code, run["stop"]["step"]) == (3, "environment")
    assert "contradicts" not in run["stop"]
    assert Catalog((tmp_path,)).evidence(ROW).runs[0].standing == "documented"
    done = world.run("matrix", "list", "--matrix", tmp_path, "--format", "json")
    assert json.loads(done.stdout)["evidence"][ROW] == Catalog((tmp_path,)).evidence(ROW).standing
