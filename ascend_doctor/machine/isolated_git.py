"""Git on a checkout that anybody may have written: it reads none of its configuration.

What a .git/config names is run (filter.*.clean, core.fsmonitor, hooks, core.sshCommand, includes
of more of them), so git gets a folder of its own, which has the commit and nothing else; index and
objects of the checkout are data.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.patterns import defer

_COPY_LIMIT = 256 << 20  # bytes of packed-refs

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
# With these an unchanged file may differ from the commit; we do not apply them.
_CONVERTS = defer(r"\[\s*filter\b|\bautocrlf\b|\beol\b|\bfilter=", re.IGNORECASE)


class GitCommand(NamedTuple):
    """``env`` comes on top of an environment without GIT_ variables."""

    argv: list[str]
    env: Mapping[str, str]


class GitFolder(msgspec.Struct, frozen=True, kw_only=True):
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
                Path(folder, name).write_text(content, "ascii")
            argv = [
                # Otherwise status writes its results into the index, the user's file.
                *("git", "--no-optional-locks", "-C", self.root, "status", "--porcelain"),
                *("--untracked-files=no", "--ignore-submodules=all"),
            ]
            yield GitCommand(argv, self._environment(folder))

    def _environment(self, folder: str) -> dict[str, str]:
        return {
            **_environment(folder, self.common),
            "GIT_WORK_TREE": self.root,
            "GIT_INDEX_FILE": os.path.join(self.git, "index"),
        }


@contextlib.contextmanager
def read_environment(git: str, common: str, formats: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Variables for git to read a repository's refs and objects without its configuration.

    ``formats`` are those of its extensions (git-config(1)).
    """
    with temporary() as folder:
        lines = "".join(f"\t{name} = {value}\n" for name, value in formats.items())
        config = _CONFIG.replace("= 0", "= 1", 1) + f"[extensions]\n{lines}"
        Path(folder, "config").write_text(config, "ascii")
        os.mkdir(os.path.join(folder, "refs"))
        _copy(os.path.join(git, "HEAD"), os.path.join(folder, "HEAD"))
        for name in ("packed-refs", "shallow"):
            _copy(os.path.join(common, name), os.path.join(folder, name))
        for refs in ("refs", "reftable"):
            for root, _, names in os.walk(os.path.join(common, refs)):
                target = os.path.join(folder, os.path.relpath(root, common))
                os.makedirs(target, exist_ok=True)
                for name in names:
                    _copy(os.path.join(root, name), os.path.join(target, name))
        yield _environment(folder, common)


def _copy(source: str, target: str) -> None:
    """Copy a regular file if present and readable; git ignores an invalid ref."""
    with contextlib.suppress(DataError):
        Path(target).write_bytes(read_bytes(source, _COPY_LIMIT))


def _environment(folder: str, common: str) -> dict[str, str]:
    return {
        "GIT_DIR": folder,
        "GIT_OBJECT_DIRECTORY": os.path.join(common, "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "",  # nothing is fetched that a partial clone lacks
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        # Git before 2.32 does not know GIT_CONFIG_GLOBAL.
        "HOME": folder,
        "XDG_CONFIG_HOME": folder,
    }


def converts(configuration: str) -> bool:
    """Whether a configuration or attributes convert files on their way to the index."""
    return _CONVERTS.search(configuration) is not None
