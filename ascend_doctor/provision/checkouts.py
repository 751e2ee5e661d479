"""The checkouts of a stack: looked at first, then pinned, fetched and placed as far as needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.provision.git import Git, commit_of
from ascend_doctor.provision.lock import Checkout
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.steps import Outcome, Site, Word


@dataclass(frozen=True)
class Checkouts:
    """Works in the folder of one stack. ``finished``: the stack was built to its end before."""

    site: Site
    folder: Path
    finished: bool

    @property
    def git(self) -> Git:
        return Git(runner=self.site.runner)

    def build(self, wanted: Sequence[Checkout]) -> tuple[Checkout, ...]:
        """All of them, pinned. Raises DataError for local changes, CommandError, OSError.

        Every server is asked for its refs before anything is written.
        """
        todo = {one.name for one in wanted if not self._is_right(one)}
        missing = [one for one in wanted if one.name in todo and not self._has(one)]
        pins = self._pinned(missing) if self.site.asks and missing else {}
        pinned = tuple(pins.get(one.name, one) for one in wanted)
        for one in pinned:
            if one.name in todo:
                self._place(one)
            else:
                self.site.watch.ended(Outcome(one.name, "skipped", _short(one)))
        return pinned

    def trees(self, pinned: Sequence[Checkout]) -> tuple[Checkout, ...]:
        """The same with the hashes of their trees. Raises CommandError."""
        return tuple(
            msgspec.structs.replace(one, tree=self.git.tree(self.folder / one.path))
            for one in pinned
        )

    def _is_right(self, wanted: Checkout) -> bool:
        """Whether the checkout is there. Raises DataError where it has changes of the user."""
        folder = self.folder / wanted.path
        if not folder.is_dir():
            return False
        try:
            changes = self.git.changes(folder)
            right = self.git.head(folder) == wanted.commit
        except CommandError:
            return False
        if changes:
            told = ", ".join(one.strip() for one in changes[:3])
            self.site.watch.ended(Outcome(wanted.name, "failed", f"local changes: {told}"))
            raise DataError(
                f"{folder} has {len(changes)} changed files ({told}); setup leaves them alone: "
                f"commit them elsewhere, or git -C {folder} stash, then run setup again"
            )
        return right

    def _has(self, wanted: Checkout) -> bool:
        return bool(wanted.commit) and self.git.has(self._cache(wanted), wanted.commit)

    def _cache(self, wanted: Checkout) -> Path:
        return self.site.prefix.objects / f"{wanted.name}.git"

    def _pinned(self, missing: Sequence[Checkout]) -> dict[str, Checkout]:
        pinned = {}
        with self.site.step("refs") as done:
            for one in missing:
                source = self.site.source(one)
                component = self.site.catalog.component(one.name)
                commit = commit_of(component, one, self.git.refs(source), source.url)
                pinned[one.name] = msgspec.structs.replace(one, commit=commit)
            done("built", ", ".join(_short(one) for one in pinned.values()))
        return pinned

    def _place(self, wanted: Checkout) -> None:
        cache, folder = self._cache(wanted), self.folder / wanted.path
        word: Word = "repaired" if self.finished or folder.exists() else "built"
        with self.site.step(wanted.name, cache, folder.parent) as done:
            folder.parent.mkdir(parents=True, exist_ok=True)
            cache.parent.mkdir(parents=True, exist_ok=True)
            source = self.site.source(wanted)
            known = cache.exists()
            try:
                if not self._has(wanted):
                    self.git.fetch(cache, source, wanted.commit, wanted.ref)
                tree = self.git.place(cache, folder, wanted)
            except CommandError:
                if not known:
                    raise
                # If an object of the cache is damaged, what the server has is not.
                self.git.renew(cache, source, wanted)
                tree = self.git.place(cache, folder, wanted)
                word = "repaired"
            if wanted.tree and tree != wanted.tree:
                raise DataError(f"{wanted.name}: the tree is {tree}, not {wanted.tree} of the lock")
            done(word, _short(wanted))


def _short(one: Checkout) -> str:
    return f"{one.ref} {one.commit[:12]}"
