"""The Python environment of a stack: made, filled from kept wheels, proven and mended."""

import contextlib
import functools
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision import wheels as store
from ascend_doctor.provision.accepted import names_without_need, relax_wheel
from ascend_doctor.provision.editable_wheel import stand_in
from ascend_doctor.provision.installed import read_installed
from ascend_doctor.provision.lock import Lock, Wheel, environment_of
from ascend_doctor.provision.options import Plan, SetupOptions
from ascend_doctor.provision.plan import arch_of
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.source_builds import SourceBuilder, pin_of
from ascend_doctor.provision.steps import Outcome

_PROVE = 120.0
# Leftovers of a resolution, perhaps as large as the environment.
_SCRATCH = ("scratch", "pins", "relaxed", "sources")
# Without the current folder. The answer is last, as a sitecustomize may print.
_WHERE = """
import sys
sys.path[:] = filter(None, sys.path)
import importlib.util as u, json
def where(name):
    try:
        spec = u.find_spec(name)
    except ImportError:
        spec = None
    return spec and (spec.origin or list(spec.submodule_search_locations or [""])[0])
print(json.dumps({name: where(name) for name in sys.argv[1:]}))
"""


@dataclass(frozen=True)
class VirtualEnvironment:
    """Works in one stack's folder, which has the checkouts.

    ``.state/begun`` means that pip may have started, ``.state/environment`` that it ended.
    """

    options: SetupOptions
    plan: Plan
    folder: Path

    @property
    def pip(self) -> store.Pip:
        target = self.options.target
        path = self._state / "pip" if target else environment_of(self.folder, self.plan.lock)
        runner = self.options.runner
        return store.Pip(folder=path, base=self.plan.python, runner=runner, target=target)

    @property
    def _state(self) -> Path:
        return self.folder / ".state"

    @functools.cached_property
    def _sources(self) -> SourceBuilder:
        return SourceBuilder(
            catalog=self.options.catalog,
            runner=self.options.runner,
            target=self.options.target,
            lock=self.plan.lock,
            base=self.plan.python,
            arch=arch_of(self.options.facts),
            scratch=self._state / "sources",
        )

    def build(self, before: Lock | None) -> tuple[Wheel, ...]:
        """The wheels.

        ``before``: the lock of the finished stack. Raises CommandError, DataError, OSError.
        """
        mark = self.folder / locks.BUILT
        whole = mark.is_file() and self.pip.exists()
        known = before.wheels if before else self._look_up_wheels()
        if whole and known is not None:
            self._mend(known)
            return known
        own = self.plan.lock.venv == "venv"
        interrupted = (self._state / "begun").is_file()
        with self.options.steps.step("environment", self.pip.folder, self._state) as done:
            mark.unlink(missing_ok=True)
            if own:  # half an installation cannot be told from a whole one
                shutil.rmtree(self.pip.folder, ignore_errors=True)
            self._state.mkdir(parents=True, exist_ok=True)
            (self._state / "begun").touch()
            if not self.pip.exists():
                self.pip.make(beside=bool(self.plan.lock.preserved))
            known = self._wheels(before)
            files = [
                *self._stand_ins(),
                *(store.wheel_path(self.options.prefix, wheel) for wheel in known),
            ]
            self.pip.install(files, over=interrupted and not own)
            for checkout in self.plan.lock.checkouts:
                if checkout.editable:
                    self.pip.install_editable(self.folder / checkout.path, self._state / "linked")
            self._come_from_checkouts()
            for name in _SCRATCH:
                shutil.rmtree(self._state / name, ignore_errors=True)
            mark.touch()
            done("repaired" if before else "built", f"{len(known)} wheels")
        return known

    def fetch(self, before: Lock | None) -> tuple[Wheel, ...]:
        """The wheels for another machine, not installed. Raises as ``build`` does."""
        with self.options.steps.step("wheels", self._state) as done:
            if not self.pip.exists():
                self.pip.make(beside=False)
            known = self._wheels(before)
            for name in (*_SCRATCH, "pip"):
                shutil.rmtree(self._state / name, ignore_errors=True)
            done("built", f"{len(known)} wheels for {self.plan.lock.python.arch}")
        return known

    def _mend(self, known: Sequence[Wheel]) -> None:
        there = read_installed(LiveMachine({}), str(self.pip.folder))
        gone = [
            wheel
            for wheel in known
            if wheel.name not in there or not there[wheel.name].is_of(wheel.version, wheel.exact)
        ]
        if not gone:
            self.options.steps.end(Outcome("environment", "skipped", f"{len(known)} wheels"))
            return
        with self.options.steps.step("environment", self.pip.folder) as done:
            again = self._obtain(gone)
            self.pip.install(
                (store.wheel_path(self.options.prefix, wheel) for wheel in again), over=True
            )
            shutil.rmtree(self._state / "scratch", ignore_errors=True)
            done("repaired", ", ".join(f"{wheel.name} {wheel.version}" for wheel in gone))

    def _wheels(self, before: Lock | None) -> tuple[Wheel, ...]:
        if before or self.plan.exact:
            return self._obtain((before or self.plan.lock).wheels)
        return self._look_up_wheels() or self._resolve()

    def _look_up_wheels(self) -> tuple[Wheel, ...] | None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            content = (self._state / "wheels.json").read_bytes()
            known = msgspec.json.decode(content, type=tuple[Wheel, ...])
            if all(store.intact(self.options.prefix, wheel) for wheel in known):
                return known
        return None

    def _resolve(self) -> tuple[Wheel, ...]:
        pins = [line for line in self.plan.requirements if "==" in line]
        sources = dict.fromkeys(filter(self._is_built, pins), "")
        described = self._describe_checkouts()
        if self.pip.uv and not (sources or self._unasked):
            # An index that lacks a pin ends this; then pins are looked for one by one.
            with contextlib.suppress(CommandError):
                return self._keep(self._look_for(pins, described), described, {})
        plain = [pin for pin in pins if pin not in sources]
        pinned = self.pip.pin(self._state / "pins", plain, self.plan.indexes)
        built = self._sources.build(sources, pinned)
        pinned += [download.file for download in built]
        relaxed = self._relax(pinned)
        exact = [relaxed.get(file, file) for file in pinned]
        downloads = self._look_for([], [*exact, *described])
        whole = {store.parse_name(file)[0]: store.Download(file) for file in relaxed}
        whole |= {store.parse_name(download.file)[0]: download for download in built}
        return self._keep(downloads, described, whole)

    def _look_for(self, pins: Sequence[str], files: Sequence[Path]) -> list[store.Download]:
        """Resolve the plan; ``files`` are wheels in place of an index. Raises CommandError."""
        here = [*files, *self._stand_ins(), *self._stand_ins_of_absent()]
        asked = [
            *pins,
            *(line for line in self.plan.requirements if "==" not in line),
            *(
                line
                for checkout in self.plan.lock.checkouts
                if checkout.editable or not checkout.provides
                for line in store.requirements_of(
                    self.folder / checkout.path,
                    self._unasked.get(checkout.name, frozenset()),
                    built=checkout.editable,
                )
            ),
            *(f"{store.distribution(file)} @ {file.as_uri()}" for file in here),
        ]
        return self._resolve_dated(dict.fromkeys(asked))

    def _keep(
        self,
        downloads: Sequence[store.Download],
        described: Sequence[Path],
        whole: Mapping[str, store.Download],
    ) -> tuple[Wheel, ...]:
        """The wheels to install, kept in the prefix; ``whole`` replaces files by name.

        Raises DataError for a name that is not what it says.
        """
        provided = {name for checkout in self.plan.lock.checkouts for name in checkout.provides}
        provided |= {*self.plan.lock.preserved, *self._left_out}
        provided |= {store.distribution(file) for file in described}
        names = {download: store.parse_name(download.file)[0] for download in downloads}
        hazards = {hazard.name for hazard in self.options.catalog.hazards.hazards} & set(
            names.values()
        )
        if hazards:
            raise DataError(f"pip would bring {', '.join(hazards)}: not what these names say")
        own = [whole.get(name, file) for file, name in names.items() if name not in provided]
        known = store.keep(self.options.prefix, own)
        fresh = self._state / "wheels.new"
        fresh.write_bytes(msgspec.json.encode(known))
        fresh.replace(self._state / "wheels.json")
        return known

    @property
    def _unasked(self) -> dict[str, frozenset[str]]:
        """By component, what pip must not bring: conflicts that the user accepted."""
        return names_without_need(self.options.catalog, self.plan.lock.accepted)

    def _relax(self, pinned: Sequence[Path]) -> dict[Path, Path]:
        """What pip sees instead of wheels whose needs were accepted as conflicts."""
        unasked = {
            normalised(self.options.catalog.component(component).obtain.distribution): names
            for component, names in self._unasked.items()
        }
        return {
            file: relax_wheel(file, self._state / "relaxed", unasked[name])
            for file in pinned
            if (name := normalised(store.distribution(file))) in unasked
        }

    def _resolve_dated(self, asked: Iterable[str]) -> list[store.Download]:
        scratch, bounds = self._state / "scratch", self.plan.constraints
        self.without_dates.unlink(missing_ok=True)
        try:
            return self.pip.resolve(scratch, asked, bounds, self.plan.lock.as_of)
        except store.UndatedError as error:
            self.without_dates.touch()
            notice = (
                f"not as of {self.plan.lock.as_of}, but with what the indexes have today: {error}"
            )
            self.options.steps.end(Outcome("date", "skipped", notice))
            return self.pip.resolve(scratch, asked, bounds)

    @property
    def without_dates(self) -> Path:
        """Marks a resolution of the day on which it was made."""
        return self._state / "undated"

    def _obtain(self, wheels: Sequence[Wheel]) -> tuple[Wheel, ...]:
        """Have exactly these wheels; those with only a source are rebuilt and may differ."""
        wheels = [store.find_kept(self.options.prefix, wheel) for wheel in wheels]
        missing = [wheel for wheel in wheels if not store.intact(self.options.prefix, wheel)]
        if not missing:
            return tuple(wheels)
        scratch = self._state / "scratch"
        carried = self.options.carried
        if carried is None:
            files = self._download(scratch, missing, wheels)
        else:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            for wheel in missing:
                shutil.copyfile(carried / "wheels" / wheel.file, scratch / wheel.file)
            files = [store.Download(scratch / wheel.file, wheel.source) for wheel in missing]
        wheels_here = {wheel.name: wheel for wheel in store.keep(self.options.prefix, files)}
        wrong = [
            pin_of(wheel)
            for wheel in missing
            if not _is_that(wheel, wheels_here.get(wheel.name), again=carried is None)
        ]
        if wrong:
            raise DataError(f"{', '.join(wrong)}: the content is not the lock's")
        return tuple(wheels_here.get(wheel.name, wheel) for wheel in wheels)

    def _download(
        self, scratch: Path, missing: Sequence[Wheel], wheels: Sequence[Wheel]
    ) -> list[store.Download]:
        built = {pin_of(wheel): wheel for wheel in missing if self._is_built(pin_of(wheel))}
        plain = [wheel for wheel in missing if wheel not in built.values()]
        files = self.pip.download(scratch, plain, self.plan.indexes) if plain else []
        there = [store.wheel_path(self.options.prefix, wheel) for wheel in wheels]
        there = [*(file.file for file in files), *filter(Path.is_file, there)]
        digests = {pin: wheel.source.sha256 if wheel.source else "" for pin, wheel in built.items()}
        return [*files, *self._sources.build(digests, there)]

    def _describe_checkouts(self) -> list[Path]:
        """Wheels of checkouts in place of an index; they are never installed."""
        return [
            self.pip.describe(self.folder / checkout.path, self._state / "sources")
            for checkout in self.plan.lock.checkouts
            if self.options.catalog.component(checkout.name).obtain.kind == "pip"
        ]

    def _is_built(self, pin: str) -> bool:
        return self._sources.builds(normalised(pin.partition("==")[0]))

    @property
    def _left_out(self) -> dict[str, str]:
        """Distributions that a part replaces, as triton-ascend triton, with its version."""
        catalog, left_out = self.options.catalog, {}
        for name, version in self.plan.lock.rows.items():
            part = catalog.component(name)
            row = part.release(version) if part.obtain.kind == "pip" else None
            for conflict in row.conflicts if row else ():
                other = catalog.component(conflict.component)
                if not conflict.versions and other.import_name == part.import_name:
                    left_out[normalised(other.obtain.distribution)] = version
        return left_out

    def _stand_ins(self) -> Iterator[Path]:
        for checkout in self.plan.lock.checkouts:
            for name, version in checkout.provides.items():
                summary = f"{checkout.ref} at {checkout.commit}, in place"
                path = self.folder / checkout.path
                yield stand_in(self._state / "stand-ins", name, version, summary, path)

    def _stand_ins_of_absent(self) -> Iterator[Path]:
        """Wheels that declare to pip what is there or must not be; never installed."""
        for name, version in (self._left_out | self.plan.lock.preserved).items():
            yield stand_in(self._state / "stand-ins", name, version, "kept", None)

    def _come_from_checkouts(self) -> None:
        """Raises DataError unless parts from checkouts are imported from there, as in a shell."""
        trees = self._importable()
        answer = self.options.runner.run(
            [self.pip.python, "-c", _WHERE, *trees],
            title="imports",
            deadline=_PROVE,
            shell=self.options.environment(self.folder, self.plan.lock),
        )
        for name, load in json.loads(answer.rstrip().rpartition("\n")[2]).items():
            root = self.folder / trees[name]
            if load is None or root not in Path(load).parents:
                raise DataError(f"{name} is imported from {load or 'nowhere'}, not from {root}")

    def _importable(self) -> dict[str, str]:
        modules: dict[str, str] = {}
        for checkout in self.plan.lock.checkouts:
            for name in (checkout.name, *checkout.provides):
                component = self.options.catalog.component(name)
                if component.import_name:
                    modules[component.import_name] = checkout.path
            if checkout.name == "megatron-lm":  # a namespace: its parts could come from two trees
                modules |= dict.fromkeys(("megatron.core", "megatron.training"), checkout.path)
                modules.pop("megatron", None)
        return modules


def _is_that(wheel: Wheel, other: Wheel | None, *, again: bool) -> bool:
    """The same file; if perhaps built ``again``, one of the same source."""
    if other is None or other.sha256 == wheel.sha256:
        return other is not None
    same = other.version == wheel.version and other.source == wheel.source
    return again and wheel.source is not None and same
