"""Git for a setup: refs of a server, one shared cache of objects, checkouts that stand on it."""

import contextlib
import difflib
import functools
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine import isolated_git
from ascend_doctor.matrix.schema import Component
from ascend_doctor.provision.lock import Checkout
from ascend_doctor.provision.repository import BRANCHES, TAGS, GitRef, LocalRepository
from ascend_doctor.provision.running import CommandError, Runner
from ascend_doctor.provision.sources import RepositorySource

_ASK, _FETCH, _LOCAL = 120.0, 3600.0, 600.0
# Our ref for each commit that was fully fetched; git keeps what it reaches.
_KEEP = "refs/ascend-doctor/"
_SHORTENED = re.compile(r"[0-9a-f]{7,39}")
_OPTIONS = (
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),  # checkouts stand on the cache
    # Give up a server below 1000 bytes a second for a minute (git-config(1)).
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
    # Run no program of the user's configuration on what was fetched.
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.autocrlf=false", "-c", "protocol.version=2", "-c", "advice.detachedHead=false"),
)

# git's words for a server that it does not reach, and the seconds before it is tried again.
_NETWORK = re.compile(
    r"could not resolve|failed to connect|timed out|connection re|early EOF|RPC failed|hung up"
    r"|returned error: 5",
    re.IGNORECASE,
)
_WAITS = (2, 5)


class Git(msgspec.Struct, frozen=True, kw_only=True):
    """Runs git with the user's configuration: proxies, credential helpers, insteadOf."""

    runner: Runner

    def refs(self, source: RepositorySource) -> dict[str, str]:
        """Commits of a server by tag and branch; a tag wins. Raises CommandError."""
        listed = self.list_refs(source)
        return {ref.name: ref.commit for ref in sorted(listed, key=lambda ref: not ref.moving)}

    def list_refs(self, source: RepositorySource) -> tuple[GitRef, ...]:
        """Tags and branches of a server or local repository. Raises CommandError."""
        if Path(source.url).is_dir():
            return self.local(Path(source.url)).refs()
        listed = self._run("ls-remote", "--", source.url, deadline=_ASK, source=source)
        refs: dict[str, GitRef] = {}
        for line in listed.splitlines():
            commit, _, ref = line.partition("\t")
            for kind in (BRANCHES, TAGS):
                if ref.startswith(kind):  # an annotated tag is followed by what it stands for
                    name = ref.removeprefix(kind).removesuffix("^{}")
                    moving = kind == BRANCHES
                    refs[f"{kind}{name}"] = GitRef(name=name, commit=commit, moving=moving)
        return tuple(refs.values())

    def local(self, folder: Path) -> LocalRepository:
        return LocalRepository(folder=folder, runner=self.runner)

    def has(self, cache: Path, commit: str) -> bool:
        """Whether a commit was fully fetched."""
        with contextlib.suppress(CommandError):
            return self.local(cache).commit(f"{_KEEP}{commit}").id == commit
        return False

    def fetch(self, cache: Path, source: RepositorySource, commit: str, ref: str) -> None:
        """Bring one commit into the cache, without its history if the server allows.

        Raises CommandError, and DataError if ``ref`` of the server lacks the commit.
        """
        _clear_remains(cache)
        if not (cache / "HEAD").is_file():
            self._run("init", "-q", "--bare", "--", str(cache))
        ref_here = f"{_KEEP}{commit}"
        if source.url.endswith(".bundle"):
            _mark_shallow(cache, commit)
            self._fetch(cache, source, f"{ref_here}:{ref_here}")
            return
        try:
            self._fetch(cache, source, f"{commit}:{ref_here}", "--depth=1")
        except CommandError as refused:
            # Old servers give only what a ref names.
            try:
                self._fetch(cache, source, f"{ref}:{_KEEP}tip")
                self._run("update-ref", ref_here, commit, at=cache)
            except CommandError:
                raise refused from None

    def _fetch(self, cache: Path, source: RepositorySource, refspec: str, *options: str) -> None:
        shown = "-q" if self.runner.progress is None else "--progress"
        self._run(
            *("fetch", shown, "--no-tags", "-f", "--no-write-fetch-head"),
            *(*options, "--", source.url, refspec),
            at=cache,
            deadline=_FETCH,
            source=source,
        )

    def check_out(self, cache: Path, folder: Path, checkout: Checkout) -> str:
        """Check a commit out of the cache, whole or not at all; gives the hash of its tree.

        The checkout borrows objects from the cache by a relative path. Raises CommandError.
        """
        scratch = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(scratch, ignore_errors=True)
        self._run("init", "-q", "--", str(scratch))
        git = scratch / ".git"
        (git / "objects/info").mkdir(exist_ok=True)
        up = "../" * 6  # objects, .git, the component, src, the stack's id, stacks
        (git / "objects/info/alternates").write_text(f"{up}objects/{cache.name}/objects\n", "utf-8")
        if (cache / "shallow").is_file():
            # Else git looks for parents that were not fetched.
            shutil.copyfile(cache / "shallow", git / "shallow")
        # Then git shows the name of what is checked out.
        kind = "remotes/origin" if checkout.moving else "tags"
        self._run("update-ref", f"refs/{kind}/{checkout.ref}", checkout.commit, at=scratch)
        self._run("config", "--", "remote.origin.url", checkout.url, at=scratch)
        self._run("checkout", "-q", "--detach", checkout.commit, at=scratch, deadline=_LOCAL)
        tree = self.tree(scratch)
        shutil.rmtree(folder, ignore_errors=True)
        scratch.replace(folder)
        return tree

    def tree(self, folder: Path, commit: str = "HEAD") -> str:
        return self.local(folder).commit(commit).tree

    def head(self, folder: Path) -> str:
        """The commit that is checked out. Raises CommandError for another folder."""
        return self.local(folder).commit("HEAD").id

    def changes(self, folder: Path) -> tuple[str, ...]:
        """Tracked files that differ from the commit. Raises CommandError."""
        git = str(folder / ".git")
        there = isolated_git.GitFolder(
            root=str(folder), git=git, common=git, commit=self.head(folder)
        )
        with there.status() as command:
            answer = self.runner.run(
                command.argv, title="git status", deadline=_LOCAL, env=command.env
            )
        return tuple(answer.splitlines())

    def renew(self, cache: Path, source: RepositorySource, checkout: Checkout) -> None:
        """Refetch what a damaged cache held, as far as the server has it."""
        fresh = cache.with_name(f".{cache.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        self.fetch(fresh, source, checkout.commit, checkout.ref)
        with contextlib.suppress(CommandError):
            held = self._run("for-each-ref", "--format=%(refname)", _KEEP, at=cache).split()
            for commit in {ref.removeprefix(_KEEP) for ref in held} - {checkout.commit, "tip"}:
                with contextlib.suppress(CommandError):
                    self.fetch(fresh, source, commit, checkout.ref)
        shutil.rmtree(cache, ignore_errors=True)
        fresh.replace(cache)

    def bundle(self, cache: Path, commit: str, file: Path) -> None:
        """Write one commit without history as a bundle. Raises CommandError."""
        self._run("bundle", "create", "-q", str(file), f"{_KEEP}{commit}", at=cache)

    def _run(
        self,
        *arguments: str,
        at: Path | None = None,
        deadline: float = _LOCAL,
        source: RepositorySource | None = None,
    ) -> str:
        folder = () if at is None else ("-C", str(at))
        runner = self.runner.hiding(source.secrets if source else ())
        verb = next(argument for argument in arguments if not argument.startswith("-"))
        title = f"git {verb}{f' {source.url}' if source else ''}"
        command = ["git", *_OPTIONS, *folder, *arguments]
        env = source.env if source else None
        run = functools.partial(runner.run, command, title=title, deadline=deadline, env=env)
        return _run_thrice(run, title) if source else run()


def _run_thrice(run: Callable[[], str], title: str) -> str:
    """Ask a server that git does not reach again. Raises CommandError."""
    for wait in (*_WAITS, 0):
        try:
            return run()
        except CommandError as error:
            last = error
            if not _NETWORK.search(error.output):
                raise
        time.sleep(wait)
    raise CommandError(title, f"{last.output}; --git-mirror URL_OR_DIR fetches from elsewhere")


def _mark_shallow(cache: Path, commit: str) -> None:
    """Keep git from asking for parents that a bundle without history lacks."""
    file = cache / "shallow"
    known = file.read_text("ascii").split() if file.is_file() else []
    if commit not in known:
        file.write_text("".join(f"{line}\n" for line in (*known, commit)), "ascii")


def _clear_remains(cache: Path) -> None:
    """Remove what a killed git left; the held prefix keeps others out."""
    for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/tmp_*"):
        for path in cache.glob(pattern):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def commit_of(component: Component, checkout: Checkout, refs: Mapping[str, str], url: str) -> str:
    """The full commit to pin: the row's, if the server's ref agrees, else the ref's.

    A row whose ref is its commit, as frameworks pin, has no ref to ask for: servers list none.
    Raises DataError for a ref that the server lacks, and for a moved tag.
    """
    if checkout.ref == checkout.commit:
        return checkout.commit
    commit = refs.get(checkout.ref)
    if commit is None:
        raise DataError(_no_ref(component, checkout.ref, refs, url))
    if not checkout.commit or commit == checkout.commit or checkout.moving:
        return checkout.commit or commit
    raise DataError(
        f"{url}: the tag {checkout.ref} names commit {commit}, not {checkout.commit} as the "
        f"matrix has it: it was moved, or this is another repository"
    )


def _no_ref(component: Component, ref: str, refs: Mapping[str, str], url: str) -> str:
    reason = next(
        (wrong_ref for wrong_ref in component.refs if wrong_ref.ref == ref and wrong_ref.use), None
    )
    if reason is not None:
        return f"{component.title} has no ref {ref}; use {reason.use}. {reason.note}".strip()
    near = difflib.get_close_matches(ref, refs, n=3)
    hint = f"; near names: {', '.join(near)}" if near else ""
    if _SHORTENED.fullmatch(ref):
        hint = "; a commit is named by all of its 40 digits"
    return f"{url}: there is no ref {ref}{hint}"
