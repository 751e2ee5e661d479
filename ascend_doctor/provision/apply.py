"""Builds what a plan says, step by step; what is there already and right is left as it is.

Every step looks first and acts on what it finds, so that a setup that was interrupted anywhere
goes on, and a damaged stack is repaired. A checkout appears whole by a rename; an environment
counts once its mark is written; the lock is written last, and only then the stack is put in use.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from ascend_doctor import __version__
from ascend_doctor.data import Catalog
from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision import wheels as store
from ascend_doctor.provision.git import Git, commit_of
from ascend_doctor.provision.installed import Installed, installed
from ascend_doctor.provision.lock import Checkout, Lock, Prefix, Wheel
from ascend_doctor.provision.plan import Plan
from ascend_doctor.provision.running import CommandError, Runner
from ascend_doctor.provision.sources import Source
from ascend_doctor.provision.wheels import Environment
from ascend_doctor.system import LiveMachine

Word = Literal["built", "repaired", "skipped", "failed"]
_PROVE = 120.0
_WHERE = """
import importlib.util as u, json, sys
def where(name):
    try:
        spec = u.find_spec(name)
    except ImportError:
        spec = None
    return spec and (spec.origin or list(spec.submodule_search_locations or [""])[0])
print(json.dumps({name: where(name) for name in sys.argv[1:]}))
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one step, and a few words on it."""

    title: str
    word: Word
    detail: str = ""


class Watch(Protocol):
    """Who is told of the steps; ``folders`` grow while the step runs."""

    def step(self, title: str, folders: Sequence[Path]) -> contextlib.AbstractContextManager[None]:
        """Enclose a step that has something to do."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """A step has ended, with or without anything to do."""
        ...


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a setup works and what from. ``source`` gives the server of a component.

    Without ``asks`` no server is asked for its refs: the commits are known, or come in a bundle.
    ``wheelhouse`` has the wheels of a bundle; no index is asked then.
    """

    prefix: Prefix
    runner: Runner
    catalog: Catalog
    source: Callable[[Checkout], Source]
    watch: Watch
    asks: bool = True
    wheelhouse: Path | None = None


@dataclass
class Setup:
    """One setup of one plan; the prefix is held by the caller."""

    site: Site
    plan: Plan
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.site.prefix.stack(self.plan.id)

    @property
    def git(self) -> Git:
        return Git(runner=self.site.runner)

    @property
    def environment(self) -> Environment:
        place = self.folder / self.plan.venv
        return Environment(place=place, base=self.plan.base.executable, runner=self.site.runner)

    @property
    def _state(self) -> Path:
        return self.folder / ".state"

    def finished(self) -> Lock | None:
        """The lock of this plan's stack, where it was built to its end."""
        file = self.folder / locks.FILE
        return locks.read(file) if file.is_file() else None

    def run(self) -> Lock:
        """Build, prove, write the lock and put the stack in use. Raises DoctorError, OSError."""
        before = self.finished()
        if before is not None:  # branches were pinned then
            commits = {one.name: one.commit for one in before.checkouts}
            self.plan = self.plan.with_checkouts(
                msgspec.structs.replace(one, commit=commits[one.name])
                for one in self.plan.checkouts
            )
        self._checkouts()
        wheels = self._environment(before)
        lock = before or self._lock(wheels)
        if before is None:
            with self._step("the lock", ()) as done:
                locks.write(self.folder / locks.FILE, lock)
                done("built", str(self.folder / locks.FILE))
        if self.site.prefix.current() != self.folder:
            with self._step("the stack in use", ()) as done:
                self.site.prefix.switch(self.plan.id)
                done("built", str(self.folder))
        return lock

    # ------------------------------------------------------------ checkouts

    def _checkouts(self) -> None:
        todo = [one for one in self.plan.checkouts if not self._is_right(one)]
        if not todo:
            self._say(*(Outcome(one.name, "skipped", _short(one)) for one in self.plan.checkouts))
            return
        if self.site.asks:
            self._pin([one for one in todo if not self._has(one)])
        for one in self.plan.checkouts:
            if any(each.name == one.name for each in todo):
                self._checkout(one)
            else:
                self._say(Outcome(one.name, "skipped", _short(one)))

    def _is_right(self, wanted: Checkout) -> bool:
        """Whether the checkout is there. Raises DataError where it has changes of the user."""
        folder = self.folder / wanted.path
        try:
            changes = self.git.changes(folder) if folder.is_dir() else ()
            right = folder.is_dir() and self.git.head(folder) == wanted.commit
        except CommandError:
            return False
        if changes:
            told = ", ".join(one.strip() for one in changes[:3])
            self._say(Outcome(wanted.name, "failed", f"local changes: {told}"))
            raise DataError(
                f"{folder} has {len(changes)} changed files ({told}); setup leaves them alone: "
                f"commit them elsewhere, or git -C {folder} stash, then run setup again"
            )
        return right

    def _has(self, wanted: Checkout) -> bool:
        return bool(wanted.commit) and self.git.has(self._cache(wanted), wanted.commit)

    def _cache(self, wanted: Checkout) -> Path:
        return self.site.prefix.objects / f"{wanted.name}.git"

    def _pin(self, missing: Sequence[Checkout]) -> None:
        """Ask every server for its ref before anything is written."""
        if not missing:
            return
        with self._step("refs", ()) as done:
            pinned = {}
            for one in missing:
                source = self.site.source(one)
                component = self.site.catalog.component(one.name)
                refs = self.git.refs(source)
                commit = commit_of(component, one, refs, source.url)
                pinned[one.name] = msgspec.structs.replace(one, commit=commit)
            done("built", ", ".join(_short(one) for one in pinned.values()))
        self.plan = self.plan.with_checkouts(
            pinned.get(one.name, one) for one in self.plan.checkouts
        )

    def _checkout(self, wanted: Checkout) -> None:
        cache, folder = self._cache(wanted), self.folder / wanted.path
        word: Word = "repaired" if folder.exists() or self.finished() else "built"
        with self._step(wanted.name, (cache, folder.with_name(f".{folder.name}.new"))) as done:
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

    # ------------------------------------------------------------ environment

    def _environment(self, before: Lock | None) -> tuple[Wheel, ...]:
        mark = self._state / "environment"
        whole = mark.is_file() and self.environment.exists()
        if whole and before is not None:
            self._mend(before)
            return before.wheels
        if whole and (known := self._resolved()) is not None:
            self._say(Outcome("environment", "skipped", f"{len(known)} wheels"))
            return known
        own = self.plan.venv == "venv"
        interrupted = (self._state / "begun").is_file()
        with self._step("environment", (self.environment.place, self._state)) as done:
            mark.unlink(missing_ok=True)
            if own:  # half an installation cannot be told from a whole one
                shutil.rmtree(self.environment.place, ignore_errors=True)
            self._state.mkdir(parents=True, exist_ok=True)
            (self._state / "begun").touch()
            if not self.environment.exists():
                self.environment.make()
            known = self._wheels()
            files = [*self._stand_ins(), *(store.kept(self.site.prefix, one) for one in known)]
            self.environment.install(files, over=interrupted and not own)
            for one in self.plan.checkouts:
                if one.editable:
                    self.environment.install_editable(self.folder / one.path)
            self._prove()
            shutil.rmtree(self._state / "scratch", ignore_errors=True)
            mark.touch()
            done("repaired" if before else "built", f"{len(known)} wheels")
        return known

    def _resolved(self) -> tuple[Wheel, ...] | None:
        """The wheels that an earlier run resolved, where the prefix still has all of them."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            content = (self._state / "wheels.json").read_bytes()
            known = msgspec.json.decode(content, type=tuple[Wheel, ...])
            if all(store.kept(self.site.prefix, one).is_file() for one in known):
                return known
        return None

    def _wheels(self) -> tuple[Wheel, ...]:
        scratch = self._state / "scratch"
        if self.plan.wheels is not None:
            self._obtain(self.plan.wheels, scratch)
            return self.plan.wheels
        known = self._resolved()
        if known is not None:
            return known
        provided = {name for one in self.plan.checkouts for name in one.provides}
        editable = [one for one in self.plan.checkouts if one.editable]
        asked = [
            *self.plan.requirements,
            *(line for one in editable for line in store.asked_by(self.folder / one.path)),
            *(f"{file.name.split('-')[0]} @ {file.as_uri()}" for file in self._stand_ins()),
        ]
        found = self.environment.resolve(scratch, dict.fromkeys(asked), self.plan.constraints)
        hazards = {one.name for one in self.site.catalog.hazards.hazards}
        kept = []
        for file in found:
            name = store.described(file).name if file.name else ""
            if name in hazards:
                raise DataError(f"pip would bring {file.name}, which is not what its name says")
            if name not in provided:
                kept.append(file)
        known = store.keep(self.site.prefix, kept)
        _write_whole(self._state / "wheels.json", msgspec.json.encode(known))
        return known

    def _obtain(self, wanted: Sequence[Wheel], scratch: Path) -> None:
        """Exactly these wheels, from the bundle or the indexes."""
        missing = [one for one in wanted if not store.kept(self.site.prefix, one).is_file()]
        if not missing:
            return
        if self.site.wheelhouse is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            for one in missing:
                shutil.copyfile(self.site.wheelhouse / one.file, scratch / one.file)
            files = sorted(scratch.glob("*.whl"))
        else:
            files = self.environment.download(scratch, missing)
        found = {(one.name, one.sha256) for one in store.keep(self.site.prefix, files)}
        wrong = [one.file for one in missing if (one.name, one.sha256) not in found]
        if wrong:
            raise DataError(f"{', '.join(wrong)}: the content is not the lock's")

    def _stand_ins(self) -> Iterator[Path]:
        for one in self.plan.checkouts:
            for name in one.provides:
                place = self.folder / one.path
                yield store.stand_in(self._state / "stand-ins", name, one, place)

    def _mend(self, lock: Lock) -> None:
        """Install again what left the environment since; nothing to do, no pip."""
        there = installed(LiveMachine({}), str(self.environment.place))
        gone = [one for one in lock.wheels if not _same(there.get(one.name), one)]
        if not gone:
            self._say(Outcome("environment", "skipped", f"{len(lock.wheels)} wheels"))
            return
        with self._step("environment", (self.environment.place,)) as done:
            self._obtain(gone, self._state / "scratch")
            files = [store.kept(self.site.prefix, one) for one in gone]
            self.environment.install(files, over=True)
            shutil.rmtree(self._state / "scratch", ignore_errors=True)
            done("repaired", ", ".join(f"{one.name} {one.version}" for one in gone))

    def _prove(self) -> None:
        """Every part that comes from a checkout is imported from there. Raises DataError."""
        trees = _importable(self.plan, self.site.catalog)
        path = ":".join(str(self.folder / one) for one in self.plan.pythonpath)
        answer = self.site.runner.run(
            [self.environment.python, "-c", _WHERE, *trees],
            title="imports",
            deadline=_PROVE,
            env={"PYTHONPATH": path} if path else None,
        )
        for name, found in json.loads(answer).items():
            root = self.folder / trees[name]
            if found is None or root not in Path(found).parents:
                raise DataError(f"{name} is imported from {found or 'nowhere'}, not from {root}")

    def _lock(self, wheels: tuple[Wheel, ...]) -> Lock:
        return Lock(
            tool_version=__version__,
            id=self.plan.id,
            created_at=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            wish=self.plan.wish,
            python=self.plan.base.facts,
            checkouts=tuple(
                msgspec.structs.replace(one, tree=self.git.tree(self.folder / one.path))
                for one in self.plan.checkouts
            ),
            wheels=wheels,
            settings=self.plan.settings,
            pythonpath=self.plan.pythonpath,
            rows=dict(self.plan.rows),
            stacks=self.plan.stacks,
            system=dict(self.plan.system),
            venv=self.plan.venv,
        )

    # ------------------------------------------------------------ telling

    @contextlib.contextmanager
    def _step(self, title: str, folders: Sequence[Path]) -> Iterator[Callable[[Word, str], None]]:
        told: list[Outcome] = []
        try:
            with self.site.watch.step(title, folders):
                yield lambda word, detail: told.append(Outcome(title, word, detail))
        except (DoctorError, OSError) as error:
            self._say(Outcome(title, "failed", str(error)))
            raise
        self._say(*told)

    def _say(self, *outcomes: Outcome) -> None:
        for one in outcomes:
            self.outcomes.append(one)
            self.site.watch.ended(one)


def _importable(plan: Plan, catalog: Catalog) -> Mapping[str, str]:
    """Import names and the checkout that each has to come from."""
    found: dict[str, str] = {}
    for one in plan.checkouts:
        for name in (one.name, *one.provides):
            component = catalog.component(name)
            if component.import_name:
                found[component.import_name] = one.path
        if one.name == "megatron-lm":  # a namespace: its parts could come from two trees
            found |= dict.fromkeys(("megatron.core", "megatron.training"), one.path)
            found.pop("megatron", None)
    return found


def _same(found: Installed | None, wanted: Wheel) -> bool:
    return found is not None and found.is_of(wanted.version, wanted.sha256)


def _short(one: Checkout) -> str:
    return f"{one.ref} {one.commit[:12]}"


def _write_whole(path: Path, content: bytes) -> None:
    scratch = path.with_suffix(".new")
    scratch.write_bytes(content)
    scratch.replace(path)
