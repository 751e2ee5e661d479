import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.provision import bundle
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.target import Target
from tests.provision import small_world
from tests.provision.small_world import World

THERE = "aarch64" if platform.machine() == "x86_64" else "x86_64"
LINE = f"3.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """With a torch that wants another package on each machine, and has a file for each."""
    return small_world.make_for_two(tmp_path_factory.mktemp("target"))


def test_a_bundle_for_another_machine_has_its_wheels(world: World, tmp_path: Path) -> None:
    prefix, carried = tmp_path / "prefix", tmp_path / "bundle"
    on = ("--on", f"arch={THERE}", "--on", f"python={LINE}", "--bundle", carried)
    done = world.setup("0.15.3", prefix, *on)
    assert done.returncode == 0, done.stderr
    assert f"there: ascend-doctor setup --offline --from {carried} --yes" in done.stderr
    lock = bundle.read(carried)
    assert (lock.python.arch, lock.python.tag) == (THERE, f"cp{LINE.replace('.', '')}")
    assert lock.proof is None
    assert lock.wish["on"] == f"arch={THERE} python={LINE}"
    files = {wheel.name: wheel.file for wheel in lock.wheels}
    assert files["torch"] == f"torch-2.14.0-py3-none-manylinux_2_28_{THERE}.whl"
    assert {name for name in files if name.startswith("only-")} == {
        f"only-{THERE.replace('_', '-')}"
    }
    assert not (prefix / "current").exists()
    assert not (prefix / "stacks" / lock.id / "venv").exists()
    here = world.run("setup", "--offline", "--from", carried, "--prefix", prefix, "--yes")
    assert here.returncode == 2
    assert f"the lock is for {THERE}" in here.stderr
    # A second call finds the wheels and rewrites the bundle.
    again = world.setup("0.15.3", prefix, *on)
    assert again.returncode == 0, again.stderr
    assert bundle.read(carried).wheels == lock.wheels


def test_a_bundle_for_a_machine_like_this_builds_here(world: World, tmp_path: Path) -> None:
    prefix, carried = tmp_path / "prefix", tmp_path / "bundle"
    on = ("--on", f"arch={platform.machine()}", "--on", f"python={LINE}", "--bundle", carried)
    done = world.setup("0.15.3", prefix, *on)
    assert done.returncode == 0, done.stderr
    offline: list[str | Path] = ["setup", "--offline", "--from", carried, "--prove", "0", "--yes"]
    built = world.run(*offline, "--prefix", prefix, "--matrix", world.rows, PIP_FIND_LINKS="/none")
    assert "failed" not in built.stderr, built.stderr
    assert locks.read(prefix / "current").wheels == bundle.read(carried).wheels
    assert (prefix / "current/venv/bin/python").exists()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ((), "add --dry-run, or --bundle DIR"),
        (("--bundle", "b", "--keep", "torch"), "--keep is of this one"),
        (("--bundle", "b", "--venv", "v"), "--venv is of this one"),
    ],
)
def test_what_does_not_go_together(world: World, more: tuple[str, ...], text: str) -> None:
    done = world.run("setup", "--megatron", "0.15.3", "--on", f"arch={THERE}", *more)
    assert done.returncode == 2
    assert text in done.stderr


def test_a_value_that_the_matrix_does_not_know(world: World, tmp_path: Path) -> None:
    done = world.setup("0.15.3", tmp_path, "--on", "arch=arm", "--bundle", tmp_path / "b")
    assert done.returncode == 2
    assert "no such version in the matrix; near: " in done.stderr


def test_platforms_go_down_to_manylinux2014() -> None:
    def platforms(**facts: str) -> list[str]:
        target = Target(facts=facts, python="3.10", arch="aarch64")
        return [part for part in target.download_options() if part.startswith("manylinux")]

    assert platforms()[0] == "manylinux_2_28_aarch64"
    assert platforms(glibc="2.35")[0] == "manylinux_2_35_aarch64"
    assert platforms()[-2:] == ["manylinux_2_17_aarch64", "manylinux2014_aarch64"]
    for glibc in ("2.5", "two"):
        with pytest.raises(DataError, match="glibc"):
            platforms(glibc=glibc)


@pytest.mark.slow
def test_markers_are_those_of_the_target(tmp_path: Path) -> None:
    """pip itself reads them as this machine's."""
    index = tmp_path / "index"
    needs = [f"{name}; {marker}" for name, marker in (
        ("there", "platform_machine == 'riscv64' and python_version == '3.9'"),
        ("here", "platform_machine != 'riscv64'"),
    )]  # fmt: skip
    small_world.wheel(index, "top", "1.0", *needs)
    for name in ("there", "here"):
        small_world.wheel(index, name, "1.0")
    target = Target(facts={}, python="3.9", arch="riscv64")
    arguments = ["download", "-q", "--no-index", "--find-links", str(index), "-d", str(tmp_path)]
    command = target.run_pip(sys.executable, [*arguments, *target.download_options(), "top"])
    subprocess.run(command, check=True, timeout=120)
    assert sorted(path.name for path in tmp_path.glob("*.whl")) == [
        "there-1.0-py3-none-any.whl",
        "top-1.0-py3-none-any.whl",
    ]
