"""What an index has as well, from a branch or a commit of its repository: --with NAME@REF."""

from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.request_ranges import refs_of, split_additions
from tests.provision import small_world
from tests.provision.small_world import World, git, list_imports


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world.make(tmp_path_factory.mktemp("world"))


@pytest.mark.slow
def test_a_branch_takes_the_place_of_the_release(world: World, tmp_path: Path) -> None:
    prefix, commit = tmp_path / "p", git("rev-parse", "main", at=world.mirrors / "mcore-bridge")
    done = world.setup("0.15.3", prefix, "--with", "mcore-bridge@main")
    assert "failed" not in done.stderr, done.stderr
    assert "mcore-bridge is taken from main, of which the matrix says nothing" in done.stderr
    stack = prefix / "current"
    lock = locks.read(stack)
    (checkout,) = (part for part in lock.checkouts if part.name == "mcore-bridge")
    assert (checkout.ref, checkout.commit, checkout.editable) == ("main", commit, True)
    names = {wheel.name for wheel in lock.wheels}
    assert "mcore-bridge" not in names
    assert {"einops", "ms-swift"} <= names
    assert "src/mcore-bridge" in list_imports(stack)["mcore_bridge"]
    # The branch goes on; the stack stays at its pin.
    small_world.commit(world.mirrors / "mcore-bridge", {"more.txt": "more\n"}, "second")
    done = world.setup("0.15.3", prefix, "--with", "mcore-bridge@main")
    assert "\nbuilt " not in done.stderr, done.stderr
    # The lock builds the same; so does the commit by name.
    again = tmp_path / "q"
    arguments: list[str | Path] = ["setup", "--locked", "--lock", stack / locks.FILE, "--yes"]
    arguments += ["--prefix", again, "--git-mirror", world.mirrors, "--matrix", world.rows]
    done = world.run(*arguments, "--prove", "0")
    assert locks.read(again / "current").checkouts == lock.checkouts, done.stderr
    done = world.setup("0.15.3", tmp_path / "r", "--with", f"mcore-bridge@{commit}")
    there = locks.read(tmp_path / "r/current").checkouts
    assert [part.tree for part in there] == [part.tree for part in lock.checkouts], done.stderr


@pytest.mark.slow
def test_a_ref_that_is_not_there_changes_nothing(world: World, tmp_path: Path) -> None:
    for ref, reason in (("mian", "near names: main"), ("abc1234", "all of its 40 digits")):
        done = world.setup("0.15.3", tmp_path / "p", "--with", f"mcore-bridge@{ref}")
        assert done.returncode == 2
        assert reason in done.stderr
        assert not (tmp_path / "p/stacks").exists() or not list((tmp_path / "p/stacks").iterdir())


@pytest.mark.parametrize(
    ("addition", "reason"),
    [
        ("numpy@main", "names no repository of numpy"),
        ("nonsense@main", "names no repository of nonsense"),
        ("mcore-bridge@../x", "no branch, tag or full commit"),
        ("mcore-bridge@--upload-pack=x", "no branch, tag or full commit"),
        ("mcore-bridge@a b", "no branch, tag or full commit"),
    ],
)
def test_other_refs_are_refused(addition: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        refs_of(Catalog(), [addition])


def test_refs_are_nothing_for_pip() -> None:
    additions = ("mcore-bridge@main", "wandb==0.20.0", "mbridge@v1/x")
    assert refs_of(Catalog(), additions) == {"mcore-bridge": "main", "mbridge": "v1/x"}
    assert split_additions(Catalog(), additions) == ("wandb==0.20.0",)
