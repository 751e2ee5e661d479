"""Git on a checkout that anybody may have written: it reads none of its configuration.

What a .git/config names is run (filter.*.clean, core.fsmonitor, hooks, core.sshCommand, includes
of more of them), so git gets a folder of its own, which has the commit and nothing else; index and
objects of the checkout are data.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ascend_doctor.machine.scratch import temporary

_CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = false
\tfileMode = false
\tautocrlf = false
\tfsmonitor = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
"""
# With these a file may differ from the commit though nobody changed it, and we do not apply them.
_CONVERTS = re.compile(r"\[\s*filter\b|\bautocrlf\b|\beol\b|\bfilter=", re.IGNORECASE)


class GitCommand(NamedTuple):
    """``env`` comes on top of an environment without GIT_ variables."""

    argv: list[str]
    env: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class GitFolder:
    """``git`` has HEAD and index, ``common`` the objects; they differ in worktrees."""

    root: str
    git: str
    common: str
    commit: str

    @contextlib.contextmanager
    def status(self) -> Iterator[GitCommand]:
        """The command that prints which tracked files differ from the commit."""
        with temporary() as folder:
            os.mkdir(os.path.join(folder, "refs"))
            for name, content in (("HEAD", f"{self.commit}\n"), ("config", _CONFIG)):
                with open(os.path.join(folder, name), "x", encoding="ascii") as file:
                    file.write(content)
            argv = [
                # status else writes what it learnt into the index, which is somebody's file.
                *("git", "--no-optional-locks", "-C", self.root, "status", "--porcelain"),
                *("--untracked-files=no", "--ignore-submodules=all"),
            ]
            yield GitCommand(argv, self._environment(folder))

    def _environment(self, folder: str) -> dict[str, str]:
        return {
            "GIT_DIR": folder,
            "GIT_WORK_TREE": self.root,
            "GIT_INDEX_FILE": os.path.join(self.git, "index"),
            "GIT_OBJECT_DIRECTORY": os.path.join(self.common, "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": "",  # nothing is fetched that a partial clone lacks
            "GIT_TERMINAL_PROMPT": "0",
            # Git before 2.32 does not know GIT_CONFIG_GLOBAL.
            "HOME": folder,
            "XDG_CONFIG_HOME": folder,
        }


def converts(configuration: str) -> bool:
    """Whether files are converted on their way to the index, by a configuration or attributes."""
    return _CONVERTS.search(configuration) is not None
