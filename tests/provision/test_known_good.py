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
from tests.test_prove import ROW, change_run


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world.make(tmp_path_factory.mktemp("known"))


@pytest.fixture(scope="module")
def proven(world: World) -> Lock:
    prefix = world.root / "proven"
    done = world.setup("0.15.3", prefix)
    assert "known good" not in done.stderr, done.stderr
    proof = Proof(level=3, simulated=True, date="2026-11-30", probes=("port",))
    lock = msgspec.structs.replace(locks.read(prefix / "current"), proof=proof)
    rows = Catalog((world.rows,))
    python = ".".join(lock.python.version.split(".")[:2])
    bare = change_run(python=python, arch=lock.python.arch, framework="ms-swift")
    run = prove._of_lock(bare, lock, rows.stack(ROW), rows)
    prove.write_run(rows.stack(ROW), rows, run, world.rows)
    wheel(world.index, "scipy", "9.0")
    wheel(world.index, "decorator", "9.0")
    return lock


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
    words = ["setup", "--megatron", megatron, "--dry-run", "--prefix", str(tmp_path)]
    words += ["--on", f"arch={run.arch}", "--on", f"python={run.python}"]
    words += [word for name in run.additions for word in ("--with", name)]
    done = world.run(*words, "--known-good")
    assert run.summary in done.stdout
    assert (run.summary in world.run(*words).stdout) is not bool(run.published)


@pytest.mark.slow
def test_a_fitting_request_takes_it_and_resolves_nothing(
    world: World, proven: Lock, tmp_path: Path
) -> None:
    done = world.setup("0.15.3", tmp_path, "--with", "numpy==1.26.0")
    assert "known good             with ms-swift, level 3 on a simulated NPU" in done.stderr
    built = {wheel.name: wheel for wheel in proven.wheels}
    other = {wheel.name: wheel for wheel in locks.read(tmp_path / "current").wheels}
    assert built.pop("decorator").source == other.pop("decorator").source
    assert other == built
    assert "built" not in world.setup("0.15.3", tmp_path, PIP_FIND_LINKS="/nowhere").stderr


@pytest.mark.slow
def test_another_request_is_resolved(world: World, proven: Lock) -> None:
    new = world.root / "new"
    for words in (["--no-known-good"], ["--with", "numpy==1.26.4"], ["--as-of", "2026-11-30"]):
        assert "known good" not in world.setup("0.15.3", new, "--dry-run", *words).stdout
    done = world.setup("0.15.3", world.root / "proven", "--dry-run")
    assert proven.id in done.stdout
    done = world.setup("0.15.3", new, "--dry-run", "--known-good", "--with", "einops")
    assert done.returncode == 2
    assert "einops is asked for, and a lock has none" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("proven")
def test_a_changed_wheel_is_named(world: World, tmp_path: Path) -> None:
    (changed,) = world.index.glob("peft-*.whl")
    changed.write_bytes(changed.read_bytes() + b"more")
    done = world.setup("0.15.3", tmp_path)
    assert done.returncode == 1
    assert "peft==0.15.0" in done.stderr
    assert Prefix(tmp_path).current() is None
    assert not list(tmp_path.glob("stacks/*/ascend-doctor.lock"))
