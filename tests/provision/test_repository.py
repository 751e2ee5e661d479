"""Reading any local repository gives what git has, and starts nothing."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_doctor.provision import repository_files, repository_git
from ascend_doctor.provision.repository import LocalRepository, ReadError, locate
from ascend_doctor.provision.running import CommandError, Runner
from tests.programs import run_bytes, run_program
from tests.provision.hostile_repository import FILES, Trap, arm, git, hostile_environment, make

ALL = ("pkg", "odd")
# What a process without git, with hostile variables, reads of the repository in its argument.
READ = """
import json, sys
from pathlib import Path
from ascend_doctor.provision.repository import LocalRepository

class NoRunner:
    def output(self, *arguments, **more):
        raise AssertionError(arguments)

repository = LocalRepository(folder=Path(sys.argv[1]), runner=NoRunner())
texts = repository.texts("v2", ("pkg", "odd"))
print(json.dumps([
    [[ref.name, ref.commit, ref.moving] for ref in repository.refs()],
    repository.commit("HEAD").id,
    repository.commit("v1").day,
    texts,
]))
"""


class NoGit(Runner):
    def output(self, *arguments: object, **_: object) -> bytes:
        raise AssertionError(arguments)


def loose(at: Path) -> Path:
    return at


def pack(at: Path) -> Path:
    git(at, "repack", "-q", "-a", "-d", "-f", "--depth=50")
    git(at, "pack-refs", "--all")
    git(at, "prune-packed")
    assert not [*at.glob(".git/objects/??/*")]
    return at


def several_packs(at: Path) -> Path:
    git(at, "repack", "-q", "-d")
    git(at, "-c", "core.bare=false", "commit-tree", "HEAD^{tree}", "-m", "more")
    git(at, "repack", "-q", "-d", "--write-midx")
    git(at, "commit-graph", "write", "--reachable")
    return at


def bare(at: Path) -> Path:
    git(at.parent, "clone", "-q", "--bare", str(at), "bare.git")
    git(at.parent / "bare.git", "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    return at.parent / "bare.git"


def borrow(at: Path) -> Path:
    """Through two repositories, by a relative path, and back to itself."""
    for name, source in (("middle", at), ("last", at.parent / "middle")):
        git(at.parent, "clone", "-q", "--bare", "--shared", str(source), f"{name}/.git")
    alternates = at.parent / "last/.git/objects/info/alternates"
    alternates.write_text(
        "# a comment\n\n../../../middle/.git/objects\n/no/such/folder\n../objects\n", "utf-8"
    )
    (at / ".git/objects/info/alternates").write_text(f"{alternates.parent.parent}\n", "utf-8")
    git(at.parent / "last/.git", "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    return at.parent / "last"


def shallow(at: Path) -> Path:
    source = f"file://{at}"
    git(at.parent, "clone", "-q", "--no-local", "--depth=1", "--no-checkout", source, "shallow")
    git(at.parent / "shallow", "fetch", "-q", "--depth=1", "origin", "refs/tags/*:refs/tags/*")
    git(
        at.parent / "shallow",
        "fetch",
        "-q",
        "--depth=1",
        "origin",
        "topic/with/slashes:topic/with/slashes",
    )
    git(at.parent / "shallow", "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    assert (at.parent / "shallow/.git/shallow").exists()
    return at.parent / "shallow"


def worktree(at: Path) -> Path:
    git(at, "worktree", "add", "-q", "--no-checkout", "--detach", "../tree", "light-1")
    return at.parent / "tree"


def separate(at: Path) -> Path:
    (at / ".git").rename(at.parent / "elsewhere")
    (at / ".git").write_text("gitdir: ../elsewhere\n", "utf-8")
    return at


SHAPES = [loose, pack, several_packs, bare, borrow, shallow, worktree, separate]


@pytest.fixture(params=SHAPES, ids=lambda shape: shape.__name__)
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shape: Callable[[Path], Path] = request.param
    return shape(make(tmp_path / "repository"))


def refs_of(at: Path) -> dict[str, str]:
    rows = (
        row.split() for row in git(at, "ls-remote", "--heads", "--tags", ".").decode().splitlines()
    )
    return {name.removesuffix("^{}"): commit for commit, name in rows}


def contents_of(at: Path, commit: str) -> dict[str, bytes]:
    names = git(at, "ls-tree", "-r", "-z", commit).split(b"\0")[:-1]
    blobs = {}
    for row in names:
        facts, _, name = row.partition(b"\t")
        mode, _, blob = facts.decode().split()
        if mode == "100644" and name.startswith((b"pkg/", b"odd/")):
            command = ["git", "-C", str(at), "cat-file", "blob", blob]
            blobs[os.fsdecode(name)] = run_bytes(command).stdout
    return blobs


def test_a_repository_of_any_shape_is_read_without_git(repository: Path) -> None:
    local = LocalRepository(folder=repository, runner=NoGit())
    assert {
        f"refs/{'heads' if ref.moving else 'tags'}/{ref.name}": ref.commit for ref in local.refs()
    } == (refs_of(repository))
    assert [ref.name for ref in local.refs() if ref.moving] == [
        "alias",
        "main",
        "topic/with/slashes",
    ]
    for name in ("HEAD", "main", "v0", "light-1", "nested", "topic/with/slashes", "refs/tags/v2"):
        commit = local.commit(name)
        assert commit.id == git(repository, "rev-parse", f"{name}^{{commit}}").decode()
        assert commit.tree == git(repository, "rev-parse", f"{name}^{{tree}}").decode()
        assert commit == local.commit(commit.id)
        assert commit.day == "2026-01-02"  # where its committer was; in UTC it was the next
    expected = contents_of(repository, "v2")
    assert len(expected) == len(FILES)
    texts = local.texts("v2", ALL)
    assert texts == {name: content.decode("utf-8", "replace") for name, content in expected.items()}


def test_both_readers_give_the_same_bytes(repository: Path) -> None:
    files, expected = locate(repository), contents_of(repository, "v1")
    with (
        repository_files.open_reader(files) as own,
        repository_git.open_reader(files, Runner()) as isolated,
    ):
        assert own.refs() == isolated.refs() == refs_of(repository)
        for reader in (own, isolated):
            entries = [entry for path in ALL for entry in reader.entries(reader.commit("v1"), path)]
            contents = dict(
                zip((e.path for e in entries), reader.contents(entries, 1 << 20), strict=True)
            )
            assert contents == expected
            assert list(reader.contents(entries, 0)) == [
                content if content == b"" else None for content in contents.values()
            ]
            assert not reader.entries(reader.commit("v1"), "no/such/file")
            assert not reader.entries(reader.commit("v1"), "pkg/plain.py/below")
            assert not reader.entries(reader.commit("v1"), "link.py")


@pytest.mark.parametrize(
    "name", ["no-such", "of-a-tree", "1" * 40, "-option", "refs/heads/x..y", "/etc"]
)
def test_a_name_that_leads_to_no_commit_is_refused(tmp_path: Path, name: str) -> None:
    at = make(tmp_path / "repository")
    with pytest.raises(ReadError):
        LocalRepository(folder=at, runner=NoGit()).commit(name)
    with repository_git.open_reader(locate(at), Runner()) as reader, pytest.raises(ReadError):
        reader.commit(name)


@pytest.mark.slow
def test_nothing_of_a_hostile_repository_is_started(repository: Path, tmp_path: Path) -> None:
    expected = contents_of(repository, "v2")
    head = git(repository, "rev-parse", "HEAD").decode()
    refs = refs_of(repository)
    trap = Trap(tmp_path / "trap")
    (tmp_path / "trap").mkdir()
    elsewhere = make(tmp_path / "wrong")
    git(
        elsewhere,
        "update-ref",
        "refs/heads/main",
        git(elsewhere, "commit-tree", "HEAD^{tree}", "-m", "x"),
    )
    git_folder = Path(locate(repository).common)
    arm(git_folder, trap)
    env = {**os.environ, **hostile_environment(trap, elsewhere)}
    done = run_program([sys.executable, "-c", READ, str(repository)], check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert trap.marks == []
    listed, commit, day, texts = json.loads(done.stdout)
    assert {
        f"refs/{'heads' if moving else 'tags'}/{name}": ref for name, ref, moving in listed
    } == refs
    assert (commit, day) == (head, "2026-01-02")
    assert texts == {name: content.decode("utf-8", "replace") for name, content in expected.items()}
    assert texts["pkg/subst.py"] == "version = '$Format:%H$'\n"


def test_the_trap_is_one(tmp_path: Path) -> None:
    """git archive, which reading avoids, starts the filter."""
    at, trap = make(tmp_path / "repository"), Trap(tmp_path / "trap")
    (tmp_path / "trap").mkdir()
    arm(at / ".git", trap)
    git(at, "config", "--unset", "core.worktree")
    command = ["git", "-C", str(at), "archive", "--format=tar", "v2", "--", "pkg"]
    run_bytes(command, check=False)
    assert "filter.mark.process" in trap.marks


def test_git_reads_what_gitpython_does_not_know(tmp_path: Path) -> None:
    at, trap = make(tmp_path / "repository", "sha256"), Trap(tmp_path / "trap")
    expected, refs = contents_of(at, "v2"), refs_of(at)
    (tmp_path / "trap").mkdir()
    arm(at / ".git", trap)
    env = hostile_environment(trap, at)
    runner = Runner(env={**os.environ, **env, "PATH": os.environ["PATH"]})
    local = LocalRepository(folder=at, runner=runner)
    assert {
        f"refs/{'heads' if ref.moving else 'tags'}/{ref.name}": ref.commit for ref in local.refs()
    } == refs
    assert len(local.commit("nested").id) == 64
    texts = local.texts("v2", ALL)
    assert texts == {name: content.decode("utf-8", "replace") for name, content in expected.items()}
    assert trap.marks == []


def test_git_decides_about_names_that_gitpython_refuses(tmp_path: Path) -> None:
    at = make(tmp_path / "repository")
    head = git(at, "rev-parse", "HEAD").decode()
    (at / ".git/packed-refs").write_bytes(
        b"# pack-refs with: peeled fully-peeled sorted \n"
        + b"".join(
            b"%s refs/heads/%s\n" % (head.encode(), name) for name in (b"latin-\xe9", b"plain")
        )
    )
    local = LocalRepository(folder=at)
    assert {"latin-\udce9", "plain", "main"} <= {ref.name for ref in local.refs()}
    # A tree may name .git: nothing is written from it.
    blob = git(at, "rev-parse", "HEAD:pkg/plain.py").decode()
    tree = git(at, "mktree", data=f"100644 blob {blob}\t.git\n".encode()).decode()
    commit = git(at, "commit-tree", tree, "-m", "odd").decode()
    assert local.text(commit, ".git") == "plain = 1\n"


def test_refs_that_lead_out_of_a_repository_are_left_out(tmp_path: Path) -> None:
    at, outside = make(tmp_path / "repository"), make(tmp_path / "outside")
    secret = git(outside, "commit-tree", "HEAD^{tree}", "-m", "x").decode()
    git(outside, "update-ref", "refs/heads/secret", secret)
    refs = at / ".git/refs"
    target = outside / ".git/refs/heads/secret"
    (refs / "heads/up").write_text("ref: ../../../outside/.git/refs/heads/secret\n", "utf-8")
    (refs / "heads/absolute").write_text(f"ref: {target}\n", "utf-8")
    (refs / "heads/passwd").write_text("ref: /etc/passwd\n", "utf-8")
    (refs / "heads/self").write_text("ref: refs/heads/self\n", "utf-8")
    (refs / "heads/broken").write_text("not a hash\n", "utf-8")
    (refs / "heads/gone").write_text(f"{'1' * 40}\n", "utf-8")
    (refs / "tags/link").symlink_to(target)
    local = LocalRepository(folder=at, runner=NoGit())
    assert {ref.name for ref in local.refs() if ref.moving} == {
        "alias",
        "main",
        "topic/with/slashes",
    }
    assert secret not in {ref.commit for ref in local.refs()}
    for name in ("up", "absolute", "passwd", "self", "broken", "gone", "link"):
        with pytest.raises(ReadError):
            local.commit(name)


@pytest.mark.parametrize(
    "file",
    [
        "HEAD",
        "config",
        "packed-refs",
        "refs/heads/pipe",
        "objects/pack/pack-1.idx",
        "objects/info/alternates",
    ],
)
def test_a_pipe_where_a_file_is_expected_ends_at_once(tmp_path: Path, file: str) -> None:
    at = make(tmp_path / "repository")
    path = at / ".git" / file
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(ReadError):
        LocalRepository(folder=at, runner=NoGit()).refs()


def test_a_loose_object_that_is_a_pipe_is_not_there(tmp_path: Path) -> None:
    at = make(tmp_path / "repository")
    head = git(at, "rev-parse", "light-0").decode()
    path = at / ".git/objects" / head[:2] / head[2:]
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ReadError):
        LocalRepository(folder=at, runner=NoGit()).commit(head)


def test_a_damaged_object_is_not_read(tmp_path: Path) -> None:
    at = make(tmp_path / "repository")
    good, bad = (
        git(at, "rev-parse", f"HEAD:pkg/{name}.py").decode() for name in ("plain", "filtered")
    )
    path = at / ".git/objects" / bad[:2] / bad[2:]
    path.unlink()
    path.write_bytes((at / ".git/objects" / good[:2] / good[2:]).read_bytes())
    with pytest.raises(ReadError, match="damaged"):
        LocalRepository(folder=at, runner=NoGit()).text("HEAD", "pkg/filtered.py")


def test_larger_files_are_left_out(tmp_path: Path) -> None:
    at = make(tmp_path / "repository")
    local = LocalRepository(folder=at, runner=NoGit())
    assert local.texts("HEAD", ("pkg",), ending=".py", limit=10) == {
        "pkg/empty.py": "",
        "pkg/plain.py": "plain = 1\n",
        "pkg/deep/er/still.py": "still = 1\n",
    }
    with pytest.raises(ReadError, match="no no/such"):
        local.texts("HEAD", ("pkg", "no/such"))


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    for name, text in (("empty", None), ("file", "nothing\n"), ("loop", "gitdir: .git\n")):
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / ".git").write_text(text, "utf-8")
        with pytest.raises(CommandError, match=name):
            LocalRepository(folder=tmp_path / name).refs()


def test_the_variables_of_the_process_are_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, other = make(tmp_path / "repository"), make(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    before = dict(os.environ)
    assert LocalRepository(folder=at, runner=NoGit()).commit("HEAD")
    assert dict(os.environ) == before
