"""Locks that come with the matrix: evidence of a run, taken in place of a resolution."""

from pathlib import Path

import msgspec
import pytest

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.evidence import StackRun
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.lock import Lock, Prefix, Proof
from tests import prove
from tests.provision import small_world
from tests.provision.small_world import World, wheel

ROW = "mindspeed-core-0.15.3"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world.make(tmp_path_factory.mktemp("known"))


@pytest.fixture(scope="module")
def proven(world: World) -> Lock:
    """A stack that was resolved, and is evidence of the world's matrix from then on."""
    prefix = world.root / "proven"
    done = world.setup("0.15.3", prefix)
    assert "known good" not in done.stderr, done.stderr
    proof = Proof(level=3, simulated=True, date="2026-11-30T00:00:00+00:00", probes=("port",))
    lock = msgspec.structs.replace(locks.read(prefix / "current"), proof=proof)
    rows = Catalog((world.rows,))
    bare = StackRun(
        date="",
        tool_version=lock.tool_version,
        python=".".join(lock.python.version.split(".")[:2]),
        arch=lock.python.arch,
        framework="ms-swift",
        level=3,
        simulated=True,
    )
    prove.write_run(
        rows.stack(ROW), rows, prove._of_lock(bare, lock, rows.stack(ROW), rows), world.rows
    )
    # A resolution would take these.
    wheel(world.index, "scipy", "9.0")
    wheel(world.index, "decorator", "9.0")
    return lock


def versions(lock: Lock) -> dict[str, str]:
    return {wheel.name: wheel.version for wheel in lock.wheels}


LOCKS = [
    (prove._release(stack), run)
    for stack in Catalog().stacks
    for run in Catalog().evidence(stack.id).runs
    if run.pins
]


@pytest.mark.parametrize(("megatron", "run"), LOCKS)
def test_a_shipped_lock_fits_its_request(
    world: World, megatron: str, run: StackRun, tmp_path: Path
) -> None:
    words = ["setup", "--megatron", megatron, "--known-good", "--dry-run"]
    words += ["--on", f"arch={run.arch}", "--on", f"python={run.python}"]
    words += [word for name in run.additions for word in ("--with", name)]
    done = world.run(*words, "--prefix", tmp_path)
    assert done.returncode == 0, done.stderr
    assert run.summary in done.stdout
    assert f"{len(run.pins)}, by their hashes" in done.stdout


@pytest.mark.slow
def test_a_fitting_request_takes_it_and_resolves_nothing(
    world: World, proven: Lock, tmp_path: Path
) -> None:
    done = world.setup("0.15.3", tmp_path, "--with", "numpy==1.26.0")
    assert "known good             with ms-swift, level 3 on a simulated NPU" in done.stderr
    lock = locks.read(tmp_path / "current")
    assert versions(lock) == versions(proven)
    built = {wheel.name for wheel in proven.wheels if wheel.source}
    assert built == {"decorator"}
    assert {wheel for wheel in lock.wheels if wheel.name not in built} <= {*proven.wheels}
    again = world.setup("0.15.3", tmp_path, PIP_FIND_LINKS="/nowhere")
    assert again.returncode == 0
    assert "built" not in again.stderr


@pytest.mark.slow
def test_another_request_is_resolved(world: World, proven: Lock) -> None:
    for words in (["--no-known-good"], ["--with", "numpy==1.26.4"], ["--as-of", "2026-11-30"]):
        done = world.setup("0.15.3", world.root / "new", "--dry-run", *words)
        assert "known good" not in done.stdout
    # The stack that this request has already is as good.
    done = world.setup("0.15.3", world.root / "proven", "--dry-run")
    assert proven.id in done.stdout
    done = world.setup(
        "0.15.3", world.root / "new", "--dry-run", "--known-good", "--with", "einops"
    )
    assert done.returncode == 2
    assert "einops is asked for, and a lock has none" in done.stderr


@pytest.mark.slow
def test_a_changed_wheel_is_named_and_nothing_is_put_in_use(
    world: World, proven: Lock, tmp_path: Path
) -> None:
    (changed,) = world.index.glob("peft-*.whl")
    content = changed.read_bytes()
    changed.write_bytes(content + b"more")
    try:
        done = world.setup("0.15.3", tmp_path)
    finally:
        changed.write_bytes(content)
    assert done.returncode in {1, 2}
    assert "peft==0.15.0" in done.stderr
    assert Prefix(tmp_path).current() is None
    assert not list(tmp_path.glob("stacks/*/ascend-doctor.lock"))
    assert "peft" in versions(proven)
