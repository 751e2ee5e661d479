"""Stacks from full clones of the real repositories."""

from pathlib import Path

import pytest

from ascend_doctor.provision import lock as locks
from tests.acceptance.clones import clone
from tests.provision import small_world
from tests.provision.small_world import MEGATRON_REFS, MINDSPEED_REFS, World, git


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    megatron, mindspeed = clone("NVIDIA/Megatron-LM"), clone("Ascend/MindSpeed")
    return small_world.make_upstream(tmp_path_factory.mktemp("upstream"), megatron, mindspeed)


def test_stacks_of_the_real_repositories(world: World) -> None:
    """Commits equal the refs', parts are in their trees (setup proves it), bundles carry."""
    prefix = world.root / "prefix"
    for number, megatron, mindspeed in zip(
        ("0.12.1", "0.15.3"), MEGATRON_REFS, MINDSPEED_REFS, strict=True
    ):
        done = world.setup(number, prefix, "--bundle", world.root / f"bundle-{number}")
        assert "failed" not in done.stderr, done.stderr
        lock = locks.read(prefix / "current")
        for name, ref in (("Megatron-LM", megatron), ("MindSpeed", mindspeed)):
            checkout = next(
                checkout for checkout in lock.checkouts if checkout.name == name.lower()
            )
            assert checkout.commit == git("rev-parse", f"{ref}^{{commit}}", at=world.mirrors / name)
            assert checkout.tree == git("rev-parse", f"{ref}^{{tree}}", at=world.mirrors / name)
            assert (
                git("rev-parse", "HEAD^{tree}", at=prefix / "current" / checkout.path)
                == checkout.tree
            )
        away = world.root / f"away-{number}"
        carried: list[str | Path] = [
            "setup",
            "--offline",
            "--prefix",
            away,
            "--yes",
            "--prove",
            "0",
        ]
        carried += ["--matrix", world.rows, "--from", world.root / f"bundle-{number}"]
        done = world.run(*carried, PIP_FIND_LINKS="/nowhere")
        assert "failed" not in done.stderr, done.stderr
        assert locks.read(away / "current").checkouts == lock.checkouts
        assert locks.read(away / "current").wheels == lock.wheels
