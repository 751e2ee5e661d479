"""What an environment was before ``env``, kept in one variable of it."""

import binascii
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.provision.env_format import Change

NAME = "ASCEND_DOCTOR_ENV"
LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH")

# Linux limits a string of the environment to 131072 bytes (execve(2), MAX_ARG_STRLEN).
_LARGEST = 120_000


class Was(NamedTuple):
    """A variable before and after; None is unset."""

    old: str | None
    new: str | None


def before(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment as if ``env`` had never run. Raises DataError.

    Later changes by others stay: another value, and a list's entries that are not of ``env``.
    """
    base = {name: value for name, value in environ.items() if name != NAME}
    for name, was in _read_saved(environ).items():
        current = base.get(name)
        if current == was.new:
            value = was.old
        elif name in LISTS and current is not None:
            value = _without(current, was)
        else:
            continue
        if value is None:
            base.pop(name, None)
        else:
            base[name] = value
    return base


def changes_to(environ: Mapping[str, str], target: Iterable[Change]) -> list[Change]:
    """The changes to the wanted environment, the former values saved first.

    They are idempotent. Raises DataError and DoctorError.
    """
    base, changes = before(environ), list(target)
    names = {change.name for change in changes}
    saved = {change.name: Was(base.get(change.name), change.value) for change in changes}
    gone = [change for change in _restore(environ, base) if change.name not in names]
    return [Change(NAME, _encode(saved), "what --undo restores"), *gone, *changes]


def undone(environ: Mapping[str, str]) -> list[Change]:
    """The changes that undo ``env``; none if nothing is to undo. Raises DataError."""
    if NAME not in environ:
        return []
    return [*_restore(environ, before(environ)), Change(NAME, None, "nothing is left to undo")]


def _restore(environ: Mapping[str, str], base: Mapping[str, str]) -> Iterator[Change]:
    for name in _read_saved(environ):
        if environ.get(name) != base.get(name):
            yield Change(name, base.get(name), "as it was before")


def _without(current: str, was: Was) -> str | None:
    entries, new, old = (text.split(":") if text else [] for text in (current, was.new, was.old))
    # Others add before or after the list of env, which stays in one piece.
    for start in range(len(entries) - len(new) + 1):
        if entries[start : start + len(new)] == new:
            left = [*entries[:start], *old, *entries[start + len(new) :]]
            break
    else:
        left = [entry for entry in entries if entry in old or entry not in new]
    return ":".join(left) if left else was.old


def _read_saved(environ: Mapping[str, str]) -> dict[str, Was]:
    text = environ.get(NAME)
    if text is None:
        return {}
    try:
        rows = json.loads(zlib.decompress(binascii.a2b_base64(text)))
        return {name: Was(*row) for name, row in rows.items() if _is_saved(name, row)}
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise DataError(
            f"{NAME} is not as env wrote it; unset it, and open a new shell to undo"
        ) from error


def _is_saved(name: str, row: object) -> bool:
    """Whether it may become a shell command: the variable came from outside."""
    if not (name.isidentifier() and name.isascii() and isinstance(row, list)):
        raise ValueError(name)
    if not all(text is None or (isinstance(text, str) and "\0" not in text) for text in row):
        raise ValueError(name)
    return True


def _encode(saved: Mapping[str, Was]) -> str:
    """Base64 of packed JSON: shells find nothing in it, and values may be any bytes."""
    packed = zlib.compress(json.dumps(saved).encode(), 9)
    text = binascii.b2a_base64(packed, newline=False).decode()
    if len(text) > _LARGEST:
        raise DoctorError("the variables that env would change are too large to be saved")
    return text
