"""Room where jobs write: compiled operators, logs, caches, temporary files."""

import shlex

from ascend_doctor.facts import FileSystem, Storage
from ascend_doctor.judging import Case, Findings, Level, Texts, Unknown, show_bytes
from ascend_doctor.judging.chip import ascend

TEXTS = Texts("storage")

_GIB = 1 << 30
# No document gives a job's need; a checkpoint or a core file takes more than this.
_LITTLE = 1 * _GIB
_FEW_FILES = 1000
_USES = {
    "operators": "operators that are compiled",
    "logs": "logs of CANN",
    "temporary": "temporary files",
    "models": "models that are downloaded",
}


@TEXTS.check("disk-room")
def _disk_room(case: Case) -> Findings:
    ascend(case)
    storage = case.need(Storage)
    for spot in storage.places:
        yield from _judge_file_system(spot)
    yield from _not_loaded(case, storage)
    if storage.untold:
        raise Unknown(f"the room in {', '.join(storage.untold)} could not be told")


def _not_loaded(case: Case, storage: Storage) -> Findings:
    """Libraries cannot be mapped from a mount without execution; mmap(2)."""
    cann, python = case.facts.cann, case.facts.python if storage.mounts else None
    roots = [cann.active or "" if cann else "", python.prefix if python else ""]
    for root in dict.fromkeys(filter(None, roots)):
        if "noexec" in storage.options(root):
            yield TEXTS.finding("not-loaded", path=root, what="libraries of the stack")


def _judge_file_system(system: FileSystem) -> Findings:
    needed = any(use != "models" for use in system.uses)
    what = ", ".join(dict.fromkeys(_USES.get(use, use) for use in system.uses))
    full = system.free == 0 or (system.files > 0 and system.files_free == 0)
    little = system.free < _LITTLE or 0 < system.files_free < _FEW_FILES
    path = "the current folder" if system.path == "." else system.path
    if closed := system.closed or (system.path if system.read_only else ""):
        reason = "read-only" if system.read_only else "not for this user"
        yield TEXTS.finding("closed", closed=shlex.quote(closed), reason=reason, what=what)
    if system.no_exec and "operators" in system.uses:
        yield TEXTS.finding("no-exec", path=path, what=what)
    if not system.read_only and (full or little):
        inodes = f", {system.files_free} of {system.files} inodes free" if system.files else ""
        yield TEXTS.finding(
            "full" if full else "nearly-full",
            level=Level.ERROR if full and needed else None,
            path=path,
            free=f"{show_bytes(system.free)} of {show_bytes(system.size)} free{inodes}",
            what=what,
            quoted=shlex.quote(system.path),
        )
