from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.export.pylock import render_pylock
from ascend_doctor.provision.export.requirements import render_requirements
from ascend_doctor.provision.kept import (
    list_stacks,
    list_wheels,
    remove_stacks,
    remove_unused_wheels,
)
from ascend_doctor.provision.lock import LockedSource, Prefix, Wheel
from ascend_doctor.provision.running import exclusively
from tests.provision import small_world
from tests.provision.small_world import World
from tests.provision.test_lock import LOCK

TORCH = Wheel(
    name="torch",
    version="2.7.1+cpu",
    file="torch-2.7.1+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    sha256="d" * 64,
)
BUILT = Wheel(
    name="b",
    version="2",
    file="b-2-py3-none-any.whl",
    sha256="e" * 64,
    source=LockedSource(file="b-2.tar.gz", sha256="f" * 64),
)
WHOLE = msgspec.structs.replace(
    LOCK,
    wheels=(*LOCK.wheels, TORCH, BUILT),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    whole = small_world.make(tmp_path_factory.mktemp("export"))
    done = whole.setup("0.15.3", whole.root / "prefix")
    assert done.returncode in {0, 1}, done.stderr
    return whole


def export(world: World, shape: str, *more: str | Path) -> str:
    done = world.run("stack", "export", "--prefix", world.root / "prefix", "--format", shape, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_requirements_have_the_hash_of_every_file_that_pip_could_take() -> None:
    text = render_requirements(WHOLE, lambda wheel: Path(wheel.file)).replace("\\\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [str(Requirement(line.split(" ")[0])) for line in lines] == [
        *("a==1", "torch==2.7.1+cpu", "b==2")
    ]
    assert f"--hash=sha256:{'e' * 64}" in lines[2]
    assert f"--hash=sha256:{'f' * 64}" in lines[2]


def test_pip_installs_the_requirements_as_they_are(world: World, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(export(world, "requirements"))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    install: list[str | Path] = ["install", "-q", "--no-deps", "--require-hashes", "-r", file]
    done = subprocess.run(
        [tmp_path / "venv/bin/python", "-m", "pip", *install],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=world.env,
    )
    assert done.returncode == 0, done.stderr
    lock = locks.read((world.root / "prefix/current").resolve())
    site = next((tmp_path / "venv").glob("lib/python3*/site-packages"))
    there = {path.name.split("-")[0].replace("_", "-").lower() for path in site.glob("*.dist-info")}
    assert {wheel.name for wheel in lock.wheels} <= there


def test_pylock_is_one_by_its_specification(world: World, tmp_path: Path) -> None:
    tomllib = pytest.importorskip("tomllib")
    pylock = pytest.importorskip("packaging.pylock")
    file = tmp_path / "pylock.toml"
    assert export(world, "pylock", "-o", file) == ""
    content = tomllib.loads(file.read_text())
    read = pylock.Pylock.from_dict(content)
    lock = locks.read((world.root / "prefix/current").resolve())
    assert [package.name for package in read.packages] == [wheel.name for wheel in lock.wheels]
    for package in content["packages"]:
        (wheel,) = package["wheels"]
        assert (tmp_path / wheel["path"]).is_file()
    commits = [checkout["commit"] for checkout in content["tool"]["ascend-doctor"]["checkouts"]]
    assert commits == [checkout.commit for checkout in lock.checkouts]


def test_pylock_beside_the_lock_in_use_goes_up_from_the_stack(world: World) -> None:
    """The stack in use is a link, and ``..`` behind a link is the folder that it leads into."""
    tomllib = pytest.importorskip("tomllib")
    stack = world.root / "prefix/current"
    export(world, "pylock", "-o", stack / "pylock.toml")
    content = tomllib.loads((stack / "pylock.toml").read_text())
    (stack / "pylock.toml").unlink()
    assert all((stack / package["wheels"][0]["path"]).is_file() for package in content["packages"])


def test_pylock_of_a_bundle_names_the_wheels_beside_it(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    text = render_pylock(LOCK, lambda wheel: tmp_path / "wheels" / wheel.file, tmp_path)
    assert 'path = "wheels/a-1-py3-none-any.whl"' in text


def test_a_wheel_that_is_gone_is_named(world: World, tmp_path: Path) -> None:
    locks.write(tmp_path / locks.FILE, LOCK)
    done = world.run("stack", "export", "--format", "pylock", "--lock", tmp_path / locks.FILE)
    assert done.returncode == 2
    assert "a-1-py3-none-any.whl" in done.stderr
    assert "setup --locked" in done.stderr


# ---------------------------------------------------------------- what a prefix keeps


def prefix_with(root: Path, *names: str) -> Prefix:
    """Stacks that share the wheel of LOCK, the last one in use; and a wheel of nobody."""
    prefix = Prefix(root)
    for name in names:
        prefix.stack(name).mkdir(parents=True)
        locks.write(prefix.stack(name) / locks.FILE, msgspec.structs.replace(LOCK, id=name))
        prefix.switch(name)
    for digest in ("c" * 64, "9" * 64):
        (prefix.wheels / digest).mkdir(parents=True)
        (prefix.wheels / digest / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    return prefix


def test_a_stack_in_use_is_never_removed(tmp_path: Path) -> None:
    prefix = prefix_with(tmp_path, "old", "new")
    with pytest.raises(DataError, match="new is in use"):
        remove_stacks(prefix, ("old", "new"))
    with pytest.raises(DataError, match=r"no stack \.\./old; there are: new, old"):
        remove_stacks(prefix, ("../old",))
    assert prefix.stack("old").is_dir()
    with exclusively(prefix.exclusion), pytest.raises(DoctorError, match="another setup"):
        remove_stacks(prefix, ("old",))
    remove_stacks(prefix, ("old",))
    assert [folder.name for folder in (tmp_path / "stacks").iterdir()] == ["new"]
    assert [stack.in_use for stack in list_stacks(prefix)] == [True]


def test_only_wheels_of_no_lock_are_removed(tmp_path: Path) -> None:
    prefix = prefix_with(tmp_path, "one")
    prefix.stack("begun").mkdir()
    with pytest.raises(DataError, match="setup of begun has not ended"):
        remove_unused_wheels(prefix)
    remove_stacks(prefix, ("begun",))
    unused = remove_unused_wheels(prefix)
    assert [wheel.file.parent.name for wheel in unused] == ["9" * 64]
    (left,) = list_wheels(prefix, list_stacks(prefix))
    assert left.stacks == ("one",)


def test_list_tells_size_age_and_use(world: World) -> None:
    prefix = world.root / "prefix"
    text = world.run("stack", "list", "--prefix", prefix).stdout
    assert text.startswith("* core_v0.15.3-")
    assert "today" in text
    loaded = json.loads(world.run("stack", "list", "--prefix", prefix, "--format", "json").stdout)
    (stack,) = loaded["stacks"]
    assert stack["in_use"]
    assert stack["bytes"] > 0
    done = world.run("stack", "remove", stack["id"], "--prefix", prefix)
    assert (done.returncode, os.path.isdir(prefix / "stacks" / stack["id"])) == (2, True)
    assert world.run("stack", "remove", "--prefix", prefix).returncode == 2
    assert "0 wheels" in world.run("stack", "remove", "--wheels", "--prefix", prefix).stdout
