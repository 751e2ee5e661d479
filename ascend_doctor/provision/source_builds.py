"""Wheels of distributions that are built from their source beside torch, as vLLM for NPUs is."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import SourceBuild
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision.lock import Lock, LockedSource, Wheel
from ascend_doctor.provision.running import Runner
from ascend_doctor.provision.solution_plan import indexes_of
from ascend_doctor.provision.target import Target
from ascend_doctor.provision.wheels import IMPATIENT, Download, Pip, distribution, hash_file


@dataclass(frozen=True, kw_only=True)
class SourceBuilder:
    """The builds of a stack, in a separate environment with its torch.

    ``base`` is that environment's interpreter and ``arch`` its machine, ``scratch`` the folder
    for all of it; ``target`` is another machine that the wheels are for.
    """

    catalog: Catalog
    runner: Runner
    target: Target | None
    lock: Lock
    base: str
    arch: str
    scratch: Path

    def builds(self, name: str) -> bool:
        return name in self._source_builds

    def build(self, pins: Mapping[str, str], files: Iterable[Path]) -> list[Download]:
        """The wheels of pins ``NAME==VERSION``, each with the SHA-256 of its source, "" for any.

        ``files`` are wheels of the stack, also torch's. A wheel may have a local version, as
        vllm 0.11.0+empty. Raises CommandError, and DataError for a wheel only of this machine.
        """
        if not pins:
            return []
        pip = Pip(folder=self.scratch / "venv", base=self.base, runner=self._own_runner)
        if not pip.exists():
            pip.make(beside=False)
        torch = self._torch(files)
        return [self._build(pip, torch, pin, sha256) for pin, sha256 in pins.items()]

    def _build(self, pip: Pip, torch: list[str], pin: str, sha256: str) -> Download:
        name = pin.partition("==")[0]
        source_build, scratch = self._source_builds[name], self.scratch / name
        pip.install_from_index([*torch, *source_build.requires])
        source = pip.download_source(scratch, pin, sha256)
        variables = source_build.variables
        wheel = pip.make_wheel(source, scratch, "--no-build-isolation", variables=variables)
        if self.target and not wheel.name.endswith("-none-any.whl"):
            raise DataError(f"{wheel.name} is for this machine, not for {self.target.arch}")
        return Download(wheel, LockedSource(file=source.name, sha256=hash_file(source)))

    def _torch(self, files: Iterable[Path]) -> list[str]:
        file = next((file for file in files if distribution(file) == "torch"), None)
        if file is not None and not self.target:
            return [str(file)]
        component = self.catalog.component("torch")
        version = self.lock.rows.get("torch") or self.lock.preserved["torch"]
        python = msgspec.structs.replace(self.lock.python, arch=self.arch)
        urls = indexes_of(component, msgspec.structs.replace(self.lock, python=python))
        more = [part for url in urls for part in ("--extra-index-url", url)]
        return [f"torch=={version}", *IMPATIENT, *more]

    @property
    def _own_runner(self) -> Runner:
        """Without the user's build settings, which would make pip see another version."""
        ours = {name for build in self._source_builds.values() for name in build.variables}
        env = {name: value for name, value in self.runner.env.items() if name not in ours}
        return replace(self.runner, env=env)

    @functools.cached_property
    def _source_builds(self) -> dict[str, SourceBuild]:
        return {
            normalised(component.obtain.distribution): component.obtain.source_build
            for component in self.catalog.components
            if component.obtain.source_build
        }


def pin_of(wheel: Wheel) -> str:
    """The release that a wheel was built from, without the build's local version."""
    return f"{wheel.name}=={wheel.version.partition('+')[0]}"
