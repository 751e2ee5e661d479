import importlib.util
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from ascend_doctor.commands import setup_proof
from ascend_doctor.commands.accepted_checks import flags_to_accept
from ascend_doctor.errors import DataError
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.machine.live import Completed, LiveMachine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision import build
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.helpers import compile_helpers
from ascend_doctor.provision.lock import Lock, Prefix, Proof
from ascend_doctor.provision.options import Plan, SetupOptions
from ascend_doctor.provision.plan import from_lock
from ascend_doctor.provision.request_ranges import split_additions
from ascend_doctor.provision.running import CommandError, Runner
from ascend_doctor.provision.sources import Mirrors
from ascend_doctor.provision.steps import Outcome, Steps
from ascend_doctor.provision.wheels import Pip
from ascend_doctor.report import LevelRun
from tests.fleet.nodes import node
from tests.provision import small_world
from tests.provision.asked import wishes
from tests.provision.small_world import World
from tests.provision.test_lock import LOCK, empty

CATALOG = Catalog()
PASSED = Proof(level=1, simulated=True, date="2026-11-22T00:00:00+00:00", probes=("inspect-env",))
UNSAVED = msgspec.structs.replace(PASSED, failed=("checkpoint: nothing is saved",))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world.make(tmp_path_factory.mktemp("proof"))


def test_a_proof_is_told_in_one_line() -> None:
    assert PASSED.summary() == (
        "level 1 on a simulated NPU on 2026-11-22: 1 probe, 0 documented import checks"
    )
    failed = msgspec.structs.replace(PASSED, simulated=False, failed=("a: no", "b: no"))
    assert failed.summary() == "level 1 on this machine on 2026-11-22: a: no; b: no"
    assert failed.summary(["b"]) == "level 1 on this machine on 2026-11-22: a: no"
    assert failed.summary(["a", "b"]).endswith("documented import checks; accepted: a: no; b: no")
    assert LOCK.proof_summary == "never run"
    assert not LOCK.failed


def test_a_lock_keeps_its_proof(tmp_path: Path) -> None:
    torch = {"torch": "2.7.1"}
    lock = msgspec.structs.replace(LOCK, proof=PASSED, as_of="2026-06-07", preserved=torch)
    locks.write(tmp_path / locks.FILE, lock)
    assert locks.read(tmp_path) == lock
    assert "kept:\n  torch: 2.7.1\n" in (tmp_path / locks.FILE).read_text()


def test_a_stack_that_fails_its_proof_is_not_put_in_use(world: World, tmp_path: Path) -> None:
    """This world's torch_npu is not real: nothing can be simulated for it."""
    before = world.setup("0.12.1", tmp_path / "prefix")
    assert "failed" not in before.stderr, before.stderr
    current = (tmp_path / "prefix/current").resolve()
    done = world.setup("0.15.3", tmp_path / "prefix", "--prove", "1")
    assert done.returncode == 1
    assert f"the stack in use is still {current}" in done.stderr
    assert (tmp_path / "prefix/current").resolve() == current
    (stack,) = (tmp_path / "prefix/stacks").glob("core_v0.15.3-*")
    lock = locks.read(stack)
    assert lock.proof is not None
    assert lock.doubts
    drift = world.run("check", "-l", "0", "--only", "stack-lock", "--lock", stack / locks.FILE)
    assert drift.returncode == 1
    assert "did not stand its proof" in drift.stdout


def prove(
    monkeypatch: pytest.MonkeyPatch, *findings: Finding, ran: bool = True, interrupted: bool = False
) -> Proof:
    level = LevelRun(level=1, adds="imports", asked=True, ran=ran, reason="" if ran else "no time")
    report = msgspec.structs.replace(
        node("host", *findings), levels=(level,), interrupted=interrupted
    )
    monkeypatch.setattr(setup_proof, "make_report", lambda *_, **__: report)
    prover = setup_proof.Prover(level=1, simulated=False, overlays=(), quiet=True)
    monkeypatch.setattr(
        prover, "examine", lambda *_: SimpleNamespace(catalog=CATALOG, machine=LiveMachine({}))
    )
    return prover(Path("/nowhere"), msgspec.structs.replace(LOCK, rows={}))


def test_a_probe_that_told_nothing_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Finding(check="inspect-env", level=Level.UNKNOWN, title="the probe did not run")
    other = Finding(check="npu-health", level=Level.UNKNOWN, title="npu-smi is not there")
    assert prove(monkeypatch, other).doubts() == ()
    assert prove(monkeypatch, late).unknown == ("inspect-env: the probe did not run",)
    assert prove(monkeypatch, ran=False).unknown == ("level 1 did not run: no time",)
    early = Finding(check="early-end", level=Level.UNKNOWN, title="The run ended early")
    assert prove(monkeypatch, early).unknown
    wrong = Finding(check="inspect-env", level=Level.ERROR, title="torch is gone")
    assert prove(monkeypatch, wrong).failed == ("inspect-env: torch is gone",)
    named = Finding(check="checkpoint", level=Level.ERROR, title="checkpoint: nothing is saved")
    assert prove(monkeypatch, named).failed == ("checkpoint: nothing is saved",)
    accepted = msgspec.structs.replace(named, level=Level.WARNING, accepted=True)
    assert prove(monkeypatch, accepted).failed == ("checkpoint: nothing is saved",)
    assert prove(monkeypatch, msgspec.structs.replace(accepted, accepted=False)).failed == ()


@pytest.mark.parametrize("load", ["", "load 9 on 2 cores"])
def test_an_import_check_without_an_end_is_tried_again_and_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, load: str
) -> None:
    deadlines = list[float]()

    def run(*_: object, deadline: float) -> Completed:
        deadlines.append(deadline)
        return Completed(exit_code=None, timed_out=True, load=load)

    monkeypatch.setattr(setup_proof, "_import_checks", lambda *_: [("mindspeed", "code")])
    monkeypatch.setattr(LiveMachine, "run", run)
    proof = prove(monkeypatch)
    assert deadlines == [600.0, 1200.0]
    assert not proof.failed
    assert load in proof.unknown[0]
    assert "mindspeed has no end within 1200 s, at the second try" in proof.unknown[0]


def build_with(
    monkeypatch: pytest.MonkeyPatch, prefix: Prefix, lock: Lock, *accepted: str
) -> tuple[Lock, list[Lock]]:
    """What a setup gives with this stack built, and what it had to prove."""
    planned = msgspec.structs.replace(lock, proof=None, accepted_checks=accepted)
    proven = list[Lock]()

    def prove_again(_: Path, lock: Lock) -> Proof:
        proven.append(lock)
        return UNSAVED

    monkeypatch.setattr(build, "make_plan", lambda _: Plan(lock=planned, python="python"))
    monkeypatch.setattr(build, "_build", lambda *_: lock)
    options = SetupOptions(
        prefix=prefix,
        mirrors=Mirrors((), ()),
        catalog=CATALOG,
        facts=Snapshot(),
        level=1,
        environment=lambda *_: {},
        prove=prove_again,
    )
    return build.build(options), proven


def test_a_stack_is_taken_with_an_error_that_is_on_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prefix = Prefix(tmp_path)
    folder = prefix.stack(LOCK.id)
    folder.mkdir(parents=True)
    refused, proven = build_with(monkeypatch, prefix, LOCK)
    assert (refused.failed, len(proven), prefix.current()) == (True, 1, None)
    assert flags_to_accept(refused) == "--accept checkpoint"
    taken, proven = build_with(monkeypatch, prefix, refused, "checkpoint")
    assert (taken.failed, proven, prefix.current()) == (False, [], folder)
    assert locks.read(folder) == taken
    assert "; accepted: checkpoint: nothing is saved" in taken.proof_summary
    # Without the flag, the stack must not have that error.
    again, proven = build_with(monkeypatch, prefix, taken)
    assert (again.failed, len(proven)) == (True, 1)
    other = msgspec.structs.replace(UNSAVED, failed=(*UNSAVED.failed, "inspect-env: no torch"))
    worse = msgspec.structs.replace(taken, proof=other)
    assert worse.doubts == ("inspect-env: no torch",)
    assert flags_to_accept(worse) == "--accept checkpoint --accept inspect-env"
    late = msgspec.structs.replace(worse, proof=msgspec.structs.replace(other, unknown=("a: b",)))
    assert late.failed
    assert flags_to_accept(late) == ""


def test_a_check_that_no_proof_counts_is_no_error_to_accept(world: World, tmp_path: Path) -> None:
    for name, message in (("checkpont", "did you mean checkpoint?"), ("npu-health", "no proof")):
        done = world.setup("0.15.3", tmp_path, "--accept", name, "--dry-run")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_a_proof_that_failed_is_not_found_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for proof, left in ((UNSAVED, None), (PASSED, PASSED)):
        lock = msgspec.structs.replace(LOCK, proof=proof)
        locks.write(tmp_path / locks.FILE, lock)
        prover = setup_proof.Prover(level=1, simulated=False, overlays=(), quiet=True)
        monkeypatch.setattr(prover, "_prove", lambda proof, *_: proof)
        prover(tmp_path, lock)
        assert locks.read(tmp_path).proof == left


def test_an_interrupted_proof_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        prove(monkeypatch, interrupted=True)


def test_the_lock_of_a_stack_repairs_that_stack() -> None:
    assert from_lock(LOCK, empty(), there=LOCK).lock.id == LOCK.id
    other = msgspec.structs.replace(LOCK, wheels=())
    assert from_lock(LOCK, empty(), there=other).lock.id != LOCK.id
    assert from_lock(LOCK, empty("/elsewhere"), there=LOCK).lock.id != LOCK.id
    assert from_lock(LOCK, empty()).lock.id != LOCK.id


def test_additions_are_components_or_packages() -> None:
    more = ("triton-ascend==3.2.0", "flash_linear_attention", "regex==2024.5.15")
    assert wishes(CATALOG, "0.15.3", None, *more)["triton-ascend"] == "==3.2.0"
    assert wishes(CATALOG, "0.15.3", None, *more)["flash-linear-attention"] == ""
    assert split_additions(CATALOG, more) == ("regex==2024.5.15",)
    with pytest.raises(DataError, match="--with"):
        split_additions(CATALOG, ("regex>=1",))


def test_a_day_that_is_none_is_bad_usage(world: World, tmp_path: Path) -> None:
    done = world.setup("0.15.3", tmp_path, "--as-of", "yesterday")
    assert done.returncode == 2
    assert "2026-06-30" in done.stderr


def test_an_interpreter_without_what_is_to_be_kept(world: World, tmp_path: Path) -> None:
    done = world.setup("0.15.3", tmp_path, "--keep", "no-such-package")
    assert done.returncode == 2
    assert "--keep" in done.stderr


def test_the_day_is_that_of_the_youngest_row(tmp_path: Path, world: World) -> None:
    rows = world.run(
        *("setup", "--megatron", "0.15.3", "--framework", "ms-swift", "--dry-run"),
        *("--prefix", tmp_path),
    )
    assert "as of" in rows.stdout, rows.stderr
    assert "where an index tells the days" in rows.stdout


@pytest.mark.slow
def test_a_pin_that_no_index_has_names_the_index_of_the_documents(tmp_path: Path) -> None:
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    runner = Runner(env=env | {"PIP_FIND_LINKS": str(tmp_path)})
    pip = Pip(folder=Path(sys.prefix), base=sys.executable, runner=runner)
    pin, url = "no-such-torch==2.7.1+cpu", "https://index.example/whl/cpu"
    with pytest.raises(CommandError, match=url) as caught:
        pip.pin(tmp_path / "scratch", [pin], {pin: (url,)})
    assert "PIP_FIND_LINKS" in str(caught.value)
    with pytest.raises(CommandError) as caught:
        pip.pin(tmp_path / "scratch", [pin], {})
    assert url not in str(caught.value)


class Listed(Steps):
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def end(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def test_helpers_are_compiled_for_the_python_of_the_stack(tmp_path: Path) -> None:
    steps = Listed()
    options = SetupOptions(
        prefix=Prefix(tmp_path),
        mirrors=Mirrors((), ()),
        catalog=CATALOG,
        facts=Snapshot(),
        level=0,
        environment=lambda *_: {},
        prove=lambda *_: PASSED,
        steps=steps,
    )
    compile_helpers(options, tmp_path, sys.executable)
    assert steps.outcomes == []
    folder = tmp_path / "src/megatron-lm/megatron/core/datasets"
    folder.mkdir(parents=True)
    (folder / "helpers.cpp").write_text(
        "#include <pybind11/pybind11.h>\n"
        'PYBIND11_MODULE(helpers_cpp, m) { m.def("two", []() { return 2; }); }\n'
    )
    compile_helpers(options, tmp_path, sys.executable)
    compile_helpers(options, tmp_path, sys.executable)
    words = [outcome.word for outcome in steps.outcomes]
    if importlib.util.find_spec("pybind11") is None:
        assert words == ["skipped", "skipped"]
        assert "pybind11" in steps.outcomes[0].detail
    else:
        assert words == ["built", "skipped"], steps.outcomes
        assert len(list(folder.glob("helpers_cpp.cpython-*.so"))) == 1
