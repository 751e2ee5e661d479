"""Variables as text that a shell may run, or that a launcher may read. Values never become code."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ascend_doctor.errors import DoctorError

SHELLS = ("bash", "zsh", "fish", "sh")
FORMS = (*SHELLS, "json", "dotenv")

# A shell gets it in place of a script; the message is on stderr.
FAILURE = "false\n"

# Escaped inside quotes: in $'...' of bash and zsh, and in '...' of fish.
_ESCAPED = {"'": "\\'", "\\": "\\\\"}


class Change(NamedTuple):
    """A variable and its new value; None unsets it. ``because`` is the comment."""

    name: str
    value: str | None
    because: str


def text(changes: Iterable[Change], form: str) -> str:
    """The changes in one of FORMS. Raises DoctorError for a value that the form cannot hold."""
    if form == "json":
        return _json(changes)
    if form == "dotenv":
        return "".join(_dotenv(changes))
    script = _posix_script if form == "sh" else _script
    return "\n".join(script(tuple(changes), form)) + "\n"


def _script(changes: Sequence[Change], shell: str) -> Iterator[str]:
    r"""One compound command: a shell that gets only a part of it runs none of it.

    Each step runs only after a success (a variable may be read-only), so the status covers all.
    ``\builtin`` bypasses functions and aliases of the same name. A function called builtin
    hides everything, so the end looks at the outcome: ``[[`` is a keyword.
    """
    fish = shell == "fish"
    builtin = "builtin" if fish else "\\builtin"
    yield "begin" if fish else "{"
    for change in changes:
        yield _comment(change)
        if (
            fish and change.value is None
        ):  # which it calls a failure where there is no such variable
            yield f"begin; {builtin} set -e -g -- {change.name}; or {builtin} true; end &&"
        elif fish:
            yield f"{builtin} set -g -x -- {change.name} {_fish(change.value or '')} &&"
        elif change.value is None:
            yield f"{builtin} unset -v {change.name} &&"
        else:
            yield f"{builtin} export {change.name}={_posix(change.value)} &&"
    yield f"{builtin} true" if fish or not changes else _outcome(changes[0])
    yield "end" if fish else "}"


def _posix_script(changes: Sequence[Change], _: str) -> Iterator[str]:
    """The same for sh, which finds export and unset before functions (POSIX 2.9.1.1).

    A substitution loses final newlines, hence the dot; a subshell loses functions.
    """
    yield "{"
    for change in changes:
        yield _comment(change)
        name, value = change.name, change.value
        if value is None:
            yield f"\\unset -v {name} &&"
        elif value.isprintable():
            yield f"\\export {name}={_quote(value)} &&"
        else:
            shown = "".join(_octal(letter) for letter in f"{value}.")
            yield f'\\export {name}="$(\\unset -f printf; \\printf {_quote(shown)})" &&'
            yield f'{name}="${{{name}%.}}" &&'
    yield ":"
    yield "}"


def _octal(letter: str) -> str:
    """A letter in a format of printf."""
    if letter.isprintable() and letter != "-":  # an option of printf
        return letter.replace("\\", "\\\\").replace("%", "%%")
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(letter))


def _comment(change: Change) -> str:
    return f"# {change.because if change.because.isprintable() else ascii(change.because)}"


def _outcome(change: Change) -> str:
    if change.value is None:
        return f"[[ -z ${{{change.name}+x}} ]]"
    return f'[[ "${{{change.name}-}}" == {_posix(change.value)} ]]'


def _posix(value: str) -> str:
    """A word of bash and zsh; for terminals, unprintable characters become bytes."""
    if value.isprintable():
        return _quote(value)
    return "$'" + "".join(_ESCAPED.get(letter) or _bytes(letter, "\\x") for letter in value) + "'"


def _quote(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def _fish(value: str) -> str:
    """A word of fish, which knows byte escapes only outside of quotes."""
    parts = (_ESCAPED.get(letter) or _bytes(letter, "\\X", around="'") for letter in value)
    return "'" + "".join(parts) + "'"


def _bytes(letter: str, mark: str, *, around: str = "") -> str:
    if letter.isprintable():
        return letter
    return around + "".join(f"{mark}{byte:02x}" for byte in os.fsencode(letter)) + around


def _json(changes: Iterable[Change]) -> str:
    """``value`` is null for a variable to unset."""
    import json

    rows = [_utf8(change)._asdict() for change in changes]
    return json.dumps({"schema": 1, "variables": rows}, indent=2) + "\n"


def _dotenv(changes: Iterable[Change]) -> Iterator[str]:
    """The form of ``docker run --env-file`` and ``kubectl create configmap --from-env-file``.

    Both take everything after the first ``=`` literally, quotes too
    (docs.docker.com/reference/cli/docker/container/run,
    kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap).
    """
    for change in map(_utf8, changes):
        if change.value is None:
            raise DoctorError(f"a dotenv file cannot take {change.name} out of an environment")
        if not change.value.isprintable():
            raise DoctorError(
                f"{change.name} has a character that a dotenv file cannot hold; use --shell json"
            )
        yield f"# {change.because}\n{change.name}={change.value}\n"


def _utf8(change: Change) -> Change:
    try:
        (change.value or "").encode()
    except UnicodeEncodeError as error:
        raise DoctorError(
            f"{change.name} is no UTF-8 text, which JSON and dotenv files are; use a shell's form"
        ) from error
    return change
