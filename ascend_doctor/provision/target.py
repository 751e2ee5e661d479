"""The machine that a stack is carried to, as pip on this one has to see it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ascend_doctor.errors import DataError

# pip takes tags of another machine, but reads requirement markers as this one's (pypa/pip issue
# 11664): on x86_64 it brings CUDA's packages to aarch64.
_PIP = """
import json, sys
from pip._vendor.packaging import markers
ours, theirs = markers.default_environment, json.loads(sys.argv.pop(1))
markers.default_environment = lambda: {**ours(), **theirs}
from pip._internal.cli.main import main
sys.exit(main())
"""
# The minimum of torch_npu's wheels from 2.7.1 on.
_GLIBC = "2.28"
_OLDEST = 17  # manylinux2014


@dataclass(frozen=True, kw_only=True)
class Target:
    """``facts`` are those of --on, versions by component; ``python`` is a line such as 3.10.

    ``ranges`` are facts that are a line of releases, as CANN 8.5.
    """

    facts: Mapping[str, str]
    python: str
    arch: str
    ranges: Mapping[str, str] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        return f"cp{self.python.replace('.', '')}"

    def run_pip(self, python: str, arguments: list[str]) -> list[str]:
        """The command that runs pip with the target's markers."""
        theirs = {
            "platform_machine": self.arch,
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "implementation_version": f"{self.python}.0",
        }
        return [python, "-c", _PIP, json.dumps(theirs), *arguments]

    def download_options(self) -> list[str]:
        """Options of ``pip download``. Raises DataError for an odd glibc."""
        _, _, minor = self.facts.get("glibc", _GLIBC).partition(".")
        if not minor.isdecimal() or int(minor) < _OLDEST:
            raise DataError(f"--on glibc={self.facts['glibc']}: wheels need 2.{_OLDEST} or newer")
        platforms = [f"manylinux_2_{level}" for level in range(int(minor), _OLDEST - 1, -1)]
        named = [f"{name}_{self.arch}" for name in (*platforms, "manylinux2014", "linux")]
        options = ["--only-binary=:all:", "--python-version", self.python, "--implementation", "cp"]
        options += ["--abi", self.tag, "--abi", "abi3", "--abi", "none"]
        return [*options, *(part for name in named for part in ("--platform", name))]
