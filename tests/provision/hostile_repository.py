"""A repository whose settings, hooks and attributes name programs that leave a mark."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ODD_NAMES = (
    b"odd/-dash.py",
    b"odd/a b.py",
    b"odd/back\\slash.py",
    b"odd/c:colon.py",
    b"odd/latin-\xe9.py",
    b"odd/new\nline.py",
    b"odd/\xe4\xb8\xad\xe6\x96\x87.py",
    b'odd/quote".py',
    b"odd/star*.py",
    b"odd/tab\t.py",
    b"odd/\x1b[31mred.py",
)
FILES = {
    b"pkg/plain.py": b"plain = 1\n",
    b"pkg/filtered.py": b"filtered = 1\n",
    b"pkg/subst.py": b"version = '$Format:%H$'\n",
    b"pkg/ignored.py": b"ignored = 1\n",
    b"pkg/crlf.py": b"a = 1\r\nb = 2\r\n",
    b"pkg/empty.py": b"",
    b"pkg/binary.bin": bytes(range(256)),
    b"pkg/deep/er/still.py": b"still = 1\n",
    **{name: b"# %d\n" % number for number, name in enumerate(ODD_NAMES)},
}
_ATTRIBUTES = b"""\
* filter=mark diff=mark merge=mark
*.py text eol=lf working-tree-encoding=UTF-16 ident
pkg/subst.py export-subst
pkg/ignored.py export-ignore
"""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_AUTHOR_DATE": "2026-01-02T23:30:00-0500",
    "GIT_COMMITTER_DATE": "2026-01-02T23:30:00-0500",
}


def git(at: Path, *arguments: str | bytes, data: bytes = b"", day: str = "") -> bytes:
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    env |= {**_IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    if day:
        env["GIT_COMMITTER_DATE"] = f"{day}T12:00:00Z"
    done = subprocess.run(
        ["git", "-C", str(at), *arguments],
        check=True,
        capture_output=True,
        env=env,
        input=data,
        timeout=60,
    )
    return done.stdout.strip()


def make(at: Path, object_format: str = "sha1") -> Path:
    """A repository with FILES, tags and branches that names no program."""
    shutil.copytree(_template(object_format), at, symlinks=True)
    return at


@functools.cache
def _template(object_format: str) -> Path:
    at = Path(tempfile.mkdtemp(prefix="ascend-doctor-repository-"))
    atexit.register(shutil.rmtree, at, ignore_errors=True)
    git(at, "init", "-q", "-b", "main", f"--object-format={object_format}")
    index = b""
    files = {**FILES, b".gitattributes": _ATTRIBUTES, b"link.py": b"/etc/passwd"}
    for name, content in files.items():
        blob = git(at, "hash-object", "-w", "--no-filters", "--stdin", data=content)
        mode = b"120000" if name == b"link.py" else b"100644"
        index += b"%s %s\t%s\0" % (mode, blob, name)
    git(at, "update-index", "-z", "--index-info", data=index)
    for number in range(3):
        tree = git(at, "write-tree").decode()
        parent = ("-p", "refs/heads/main") if number else ()
        commit = git(at, "commit-tree", tree, *parent, "-m", f"change {number}")
        git(at, "update-ref", "refs/heads/main", commit)
        git(at, "tag", f"light-{number}", commit)
        git(at, "tag", "-a", "-m", "tag", f"v{number}", commit)
    git(at, "tag", "-a", "-m", "tag of a tag", "nested", "v1")
    git(at, "tag", "of-a-tree", "HEAD^{tree}")
    git(at, "branch", "topic/with/slashes", "light-0")
    git(at, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    return at


@dataclass(frozen=True)
class Trap:
    """Programs that leave a mark, by name."""

    folder: Path

    @property
    def marks(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "marks").iterdir())

    def program(self, name: str) -> str:
        file = self.folder / "bin" / name
        mark = self.folder / "marks" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        mark.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch '{mark}'\nexec cat 2>/dev/null\n")
        file.chmod(0o755)
        return str(file)


def arm(repository: Path, trap: Trap) -> None:
    """Name a trap's program in every setting, hook and link of a repository."""
    folder = repository / ".git" if (repository / ".git").is_dir() else repository
    settings = {
        name: trap.program(name)
        for name in (
            *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass"),
            *("core.gitProxy", "core.alternateRefsCommand", "diff.external", "diff.mark.command"),
            *("diff.mark.textconv", "filter.mark.clean", "filter.mark.smudge"),
            *("filter.mark.process", "merge.mark.driver", "gpg.program", "credential.helper"),
            *("uploadpack.packObjectsHook", "pager.log", "pager.show", "tar.tar.command"),
            *("log.mailmap", "interactive.diffFilter", "sequence.editor", "trailer.mark.command"),
        )
    }
    aliases = ("cat-file", "show", "log", "rev-parse", "for-each-ref", "ls-tree", "status")
    settings |= {f"alias.{name}": f"!{trap.program(f'alias.{name}')}" for name in aliases}
    settings |= {
        "filter.mark.required": "true",
        "core.hooksPath": str(trap.folder / "hooks"),
        "remote.origin.url": f"ext::{trap.program('ext')}",
        "remote.origin.uploadpack": trap.program("uploadpack"),
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
        "core.worktree": "/",
        "log.showSignature": "true",
    }
    included = trap.folder / "included"
    for name, text in settings.items():
        for config in (folder / "config", included):
            git(repository, "config", "--file", str(config), name, text)
    git(repository, "config", "--file", str(folder / "config"), "include.path", str(included))
    git(repository, "config", "--file", str(folder / "config"), "core.repositoryFormatVersion", "1")
    for hooks in (folder / "hooks", trap.folder / "hooks"):
        hooks.mkdir(exist_ok=True)
        for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
            (hooks / hook).unlink(missing_ok=True)
            (hooks / hook).symlink_to(trap.program(f"hook.{hook}"))
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info/attributes").write_bytes(_ATTRIBUTES)


def hostile_environment(trap: Trap, elsewhere: Path) -> dict[str, str]:
    program = trap.program("variable")
    trap.program("git")  # the first in PATH
    trap.program("uname")
    return {
        "PATH": f"{trap.folder / 'bin'}:{os.environ['PATH']}",
        "GIT_DIR": str(elsewhere / ".git"),
        "GIT_WORK_TREE": str(elsewhere),
        "GIT_COMMON_DIR": str(elsewhere / ".git"),
        "GIT_OBJECT_DIRECTORY": str(elsewhere / ".git/objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(elsewhere / ".git/objects"),
        "GIT_INDEX_FILE": str(elsewhere / ".git/index"),
        "GIT_NAMESPACE": "other",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_CONFIG": str(trap.folder / "included"),
        "GIT_CONFIG_GLOBAL": str(trap.folder / "included"),
        "GIT_CONFIG_SYSTEM": str(trap.folder / "included"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": program,
        "GIT_PYTHON_GIT_EXECUTABLE": program,
        "GIT_PYTHON_REFRESH": "raise",
        "GIT_PYTHON_TRACE": "full",
        "GIT_EXTERNAL_DIFF": program,
        "GIT_SSH_COMMAND": program,
        "GIT_SSH": program,
        "GIT_ASKPASS": program,
        "GIT_PAGER": program,
        "GIT_EDITOR": program,
        "GIT_PROXY_COMMAND": program,
        "GIT_EXEC_PATH": str(trap.folder / "bin"),
        "GIT_TRACE": str(trap.folder / "marks" / "trace"),
    }
