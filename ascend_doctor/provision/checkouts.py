"""The checkouts of a stack: looked at first, then pinned, fetched and placed as far as needed."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.provision import bundle
from ascend_doctor.provision.git import Git, commit_of
from ascend_doctor.provision.lock import Checkout
from ascend_doctor.provision.options import SetupOptions
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.sources import RepositorySource
from ascend_doctor.provision.steps import Outcome, Word


@dataclass(frozen=True)
class Checkouts:
    """Works in one stack's folder. ``finished``: the stack was fully built before."""

    options: SetupOptions
    folder: Path
    finished: bool

    @property
    def git(self) -> Git:
        runner = self.options.runner
        return Git(runner=dataclasses.replace(runner, progress=self.options.steps.progress))

    def build(self, checkouts: Sequence[Checkout], *, ask: bool) -> tuple[Checkout, ...]:
        """All of them, pinned. Raises DataError for local changes, CommandError, OSError.

        With ``ask`` every server is asked for its refs before anything is written; without it the
        commits are known, or come in a bundle.
        """
        todo = {checkout.name for checkout in checkouts if not self._is_right(checkout)}
        missing = [
            checkout for checkout in checkouts if checkout.name in todo and not self._has(checkout)
        ]
        pins = self._pin(missing) if ask and missing else {}
        pinned = tuple(pins.get(checkout.name, checkout) for checkout in checkouts)
        for checkout in pinned:
            if checkout.name in todo:
                self._check_out(checkout)
            else:
                self.options.steps.end(Outcome(checkout.name, "skipped", _short(checkout)))
        return pinned

    def trees(self, pinned: Sequence[Checkout]) -> tuple[Checkout, ...]:
        """With the hashes of their trees. Raises CommandError."""
        return tuple(
            msgspec.structs.replace(checkout, tree=self.git.tree(self.folder / checkout.path))
            for checkout in pinned
        )

    def _is_right(self, checkout: Checkout) -> bool:
        folder = self.folder / checkout.path
        if not folder.is_dir():
            return False
        try:
            changes = self.git.changes(folder)
            right = self.git.head(folder) == checkout.commit
        except CommandError:
            return False
        if changes:
            reason = ", ".join(change.strip() for change in changes[:3])
            self.options.steps.end(Outcome(checkout.name, "failed", f"local changes: {reason}"))
            raise DataError(
                f"{folder} has {len(changes)} changed files ({reason}); setup leaves them alone: "
                f"commit them elsewhere, or git -C {folder} stash, then run setup again"
            )
        return right

    def _has(self, checkout: Checkout) -> bool:
        return bool(checkout.commit) and self.git.has(self._cache(checkout), checkout.commit)

    def _cache(self, checkout: Checkout) -> Path:
        return self.options.prefix.objects / f"{checkout.name}.git"

    def _source(self, checkout: Checkout) -> RepositorySource:
        if self.options.carried:
            return bundle.source(self.options.carried, checkout)
        return self.options.mirrors.source(checkout.name, checkout.url)

    def _pin(self, missing: Sequence[Checkout]) -> dict[str, Checkout]:
        pinned = {}
        with self.options.steps.step("refs") as done:
            for checkout in missing:
                source = self._source(checkout)
                component = self.options.catalog.component(checkout.name)
                commit = commit_of(component, checkout, self.git.refs(source), source.url)
                pinned[checkout.name] = msgspec.structs.replace(checkout, commit=commit)
            done("built", ", ".join(_short(checkout) for checkout in pinned.values()))
        return pinned

    def _check_out(self, checkout: Checkout) -> None:
        cache, folder = self._cache(checkout), self.folder / checkout.path
        word: Word = "repaired" if self.finished or folder.exists() else "built"
        with self.options.steps.step(checkout.name, cache, folder.parent) as done:
            folder.parent.mkdir(parents=True, exist_ok=True)
            cache.parent.mkdir(parents=True, exist_ok=True)
            source = self._source(checkout)
            known = cache.exists()
            try:
                if not self._has(checkout):
                    self.git.fetch(cache, source, checkout.commit, checkout.ref)
                tree = self.git.check_out(cache, folder, checkout)
            except CommandError:
                if not known:
                    raise
                # If the cache is damaged, the server is not.
                self.git.renew(cache, source, checkout)
                tree = self.git.check_out(cache, folder, checkout)
                word = "repaired"
            if checkout.tree and tree != checkout.tree:
                raise DataError(
                    f"{checkout.name}: the tree is {tree}, not {checkout.tree} of the lock"
                )
            done(word, _short(checkout))


def _short(checkout: Checkout) -> str:
    return f"{checkout.ref} {checkout.commit[:12]}"
