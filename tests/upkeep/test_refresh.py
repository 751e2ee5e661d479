"""What is new upstream becomes rows, exactly, and nothing else does."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.matrix.catalog import Catalog, folder
from ascend_doctor.matrix.schema import Component
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.running import Runner
from ascend_doctor.provision.sources import Mirrors, RepositorySource
from ascend_doctor.upkeep.package_index import Interpreter, PackageIndex
from ascend_doctor.upkeep.proposals import (
    DatedRef,
    find_lost_refs,
    find_moved_heads,
    propose_releases,
    propose_rows,
    read_refs,
)
from ascend_doctor.upkeep.row_diff import render_diff
from ascend_doctor.upkeep.survey import Survey
from tests.conftest import Command
from tests.programs import run_program
from tests.provision.small_world import wheel

CATALOG = Catalog()
GIT = Git(runner=Runner())
MEGATRON = CATALOG.component("megatron-lm")


def git(at: Path, *arguments: str, day: str = "2026-01-01") -> str:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
    dates = {"GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    more = {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", **dates}
    command = ["git", "-C", str(at), *arguments]
    env = {**os.environ, **who, **more}
    done = run_program(command, env=env)
    return done.stdout.strip()


@pytest.fixture
def megatron(tmp_path: Path) -> Path:
    """A repository with tags and branches of several days, and names that are no releases."""
    repository = tmp_path / "clones" / "Megatron-LM"
    package = repository / "megatron" / "core" / "package_info.py"
    package.parent.mkdir(parents=True)
    git(repository, "init", "-q", "-b", "main")
    for minor, day in ((97, "2026-03-01"), (98, "2026-05-01"), (99, "2026-07-01")):
        package.write_text(f"MAJOR = 0\nMINOR = {minor}\nPATCH = 1\nPRE_RELEASE = ''\n")
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", "a", day=day)
        git(repository, "tag", "-a", "-m", "a", f"core_v0.{minor}.1", day="2026-09-09")
        git(repository, "branch", f"core_r0.{minor}.0")
        git(repository, "tag", f"core_v0.{minor}.1rc0")
        git(repository, "branch", f"cherry-pick-1-core_r0.{minor}.0")
    return repository


def refs_of(repository: Path) -> tuple[DatedRef, ...]:
    return read_refs(RepositorySource(url=str(repository)), GIT)


def without(component: Component, versions: Iterable[str]) -> Component:
    gone = set(versions)
    rest = tuple(row for row in component.releases if row.version not in gone)
    return msgspec.structs.replace(component, releases=rest)


def test_releases_become_rows_and_other_names_do_not(megatron: Path) -> None:
    rows = [*propose_rows(MEGATRON, refs_of(megatron))]
    assert {(row.version, row.released, row.moving) for row in rows} == {
        (f"core_{kind}0.{minor}.{patch}", f"2026-0{month}-01", kind == "r")
        for minor, month in ((97, 3), (98, 5), (99, 7))
        for kind, patch in (("v", 1), ("r", 0))
    }
    assert rows[0].version == "core_v0.99.1"
    assert rows[0].commit == git(megatron, "rev-parse", "core_v0.99.1^{commit}")
    assert rows[0].source == "NVIDIA/Megatron-LM@core_v0.99.1"


def test_a_listed_release_is_not_proposed_and_its_head_may_move(megatron: Path) -> None:
    (row,) = (row for row in MEGATRON.releases if row.version == "core_r0.16.0")
    listed = msgspec.structs.replace(row, version="core_r0.99.0", ref="core_r0.99.0")
    component = msgspec.structs.replace(MEGATRON, releases=(listed,))
    refs = refs_of(megatron)
    assert "core_r0.99.0" not in {row.version for row in propose_rows(component, refs)}
    (head,) = find_moved_heads(component, refs)
    assert (head.old, head.new) == (row.commit, git(megatron, "rev-parse", "core_r0.99.0"))


def test_a_ref_that_vanished_is_named(megatron: Path) -> None:
    lost = [*find_lost_refs(MEGATRON, refs_of(megatron))]
    assert "megatron-lm==core_v0.16.0: its repository has no ref core_v0.16.0" in lost
    assert not [*find_lost_refs(MEGATRON, ())]


@pytest.mark.slow
def test_the_diff_applies_and_the_matrix_stays_sound(
    doctor: Command, megatron: Path, tmp_path: Path
) -> None:
    done = doctor(
        *("matrix", "refresh", "megatron-lm", "--no-index"),
        *("--git-mirror", str(megatron.parent)),
    )
    assert done.returncode == 1, done.stderr
    copy = tmp_path / "copy"
    shutil.copytree(folder("matrices"), copy / "matrices")
    diff = tmp_path / "matrix.diff"
    diff.write_text(done.stdout)
    git(tmp_path, "init", "-q", str(copy))
    git(copy, "apply", str(diff))
    rows = Catalog((copy / "matrices",)).component("megatron-lm").releases
    fresh = {
        row.version: row
        for row in rows
        if row.version not in {r.version for r in MEGATRON.releases}
    }
    assert set(fresh) == {
        f"core_{kind}" for minor in (97, 98, 99) for kind in (f"v0.{minor}.1", f"r0.{minor}.0")
    }
    assert fresh["core_v0.98.1"].attributes == {"core": "0.98.1"}
    assert doctor("matrix", "lint", "--matrix", str(copy / "matrices")).returncode == 0


@pytest.mark.slow
def test_what_does_not_answer_is_said_and_is_no_silence(doctor: Command) -> None:
    done = doctor(
        *("matrix", "refresh", "megatron-lm", "--no-index"),
        *("--git-mirror", "megatron-lm=https://127.0.0.1:9/a.git"),
    )
    assert done.returncode == 3
    assert "megatron-lm: git ls-remote" in done.stderr
    assert doctor("matrix", "refresh", "nonsense", "--no-index").returncode == 2


@pytest.mark.slow
def test_an_index_is_asked_and_its_wheels_are_read(tmp_path: Path) -> None:
    for version in ("1.6.5", "99.0", "99.1rc1", "0.0.1"):
        wheel(tmp_path, "mcore-bridge", version, "megatron-core>=0.16", "einops")
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    index = PackageIndex(runner=Runner(env=env))
    assert set(index.versions("mcore-bridge", Interpreter("3.11", "aarch64"))) == {
        *("1.6.5", "99.0", "99.1rc1", "0.0.1")
    }
    assert index.versions("no-such-thing", Interpreter("3.11", "aarch64")) == ()
    clones = tmp_path / "clones"
    repository = clones / "mcore-bridge"
    repository.mkdir(parents=True)
    git(repository, "init", "-q")
    git(repository, "commit", "-q", "--allow-empty", "-m", "a", day="2026-10-01")
    git(repository, "tag", "v99.0")
    mirrors = Mirrors((str(clones),), CATALOG.component_ids)
    survey = Survey(catalog=CATALOG, git=GIT, mirrors=mirrors, index=index)
    news = survey.examine(CATALOG.component("mcore-bridge"))
    (row,) = news.rows
    assert (row.version, row.ref, row.released) == ("99.0", "v99.0", "2026-10-01")
    assert row.requires == (("megatron-core", ">=0.16"),)
    assert news.failures == ()
    file = CATALOG.files("components")["mcore-bridge"][0]
    assert "+    - {component: megatron-core" in render_diff(file, news.rows, (), "2026-11-23")


def test_only_final_releases_of_an_index_are_proposed() -> None:
    component = CATALOG.component("torch-npu")
    listed = ("99.0", "99.0rc1", "99.0.dev1", "1.0", "2.7.1.post4", "what")
    assert [row.version for row in propose_releases(component, listed)] == ["99.0"]
