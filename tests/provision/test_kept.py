import json
import os
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.kept import (
    list_stacks,
    list_wheels,
    remove_stacks,
    remove_unused_wheels,
    use_stack,
)
from ascend_doctor.provision.lock import Prefix
from ascend_doctor.provision.running import exclusively
from tests.provision import small_world
from tests.provision.small_world import World
from tests.provision.test_lock import LOCK


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    whole = small_world.make(tmp_path_factory.mktemp("export"))
    done = whole.setup("0.15.3", whole.root / "prefix")
    assert done.returncode in {0, 1}, done.stderr
    return whole


def prefix_with(root: Path, *names: str) -> Prefix:
    """Stacks that share LOCK's wheel, the last in use; and an unused wheel."""
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


def test_a_stack_that_passed_is_put_in_use_again(tmp_path: Path) -> None:
    prefix = prefix_with(tmp_path, "one", "two", "failed")
    file = prefix.stack("failed") / locks.FILE
    proof = locks.Proof(level=1, date="2026-01-01", failed=("import: broken",))
    locks.write(file, msgspec.structs.replace(LOCK, id="failed", proof=proof))
    prefix.stack("begun").mkdir()
    use_stack(prefix, "one")
    assert prefix.current() == prefix.stack("one")
    for name, words in (("failed", "import: broken"), ("begun", "not ended"), ("x", "no stack x")):
        with pytest.raises(DataError, match=words):
            use_stack(prefix, name)
    assert prefix.current() == prefix.stack("one")


def test_list_tells_size_age_and_use(world: World) -> None:
    prefix = world.root / "prefix"
    text = world.run("stack", "list", "--prefix", prefix).stdout
    assert text.startswith("* core_v0.15.3-")
    assert "today" in text
    loaded = json.loads(world.run("stack", "list", "--prefix", prefix, "--format", "json").stdout)
    (stack,) = loaded["stacks"]
    assert stack["in_use"]
    assert stack["bytes"] > 0
    used = world.run("stack", "use", stack["id"], "--prefix", prefix)
    assert (used.returncode, used.stdout.split(";")[0]) == (0, f"in use: {stack['id']}")
    done = world.run("stack", "remove", stack["id"], "--prefix", prefix)
    assert (done.returncode, os.path.isdir(prefix / "stacks" / stack["id"])) == (2, True)
    assert world.run("stack", "remove", "--prefix", prefix).returncode == 2
    assert "0 wheels" in world.run("stack", "remove", "--wheels", "--prefix", prefix).stdout
