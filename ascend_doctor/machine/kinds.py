"""What kind of file or folder a name means, by its content, and the command that reads it."""

import os
import re
import shlex
from typing import NamedTuple

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import open_regular
from ascend_doctor.machine.parsing import python_of
from ascend_doctor.machine.report_archive import is_report_archive

HEAD_BYTES = 64 << 10
# Callers compile these: most runs read no file of an unknown kind.
# A string that the head cuts ends there; without that each quote would read on to the end.
_WORD = r'"(?:[^"\\]|\\[\s\S])*(?:"|\\?\Z)|[{}\[\]:]'
_TAR_MAGIC_AT = 257
_PACKED = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd")
_LOG_LINE = (
    r"(?im)^[ \t]*(?:\x1b\[[\d;]*m)*(?:\[?rank ?\d+\]?:|\[?\d{4}[-/]\d\d[-/]\d\d[ T_-]\d\d:\d\d"
    r"|\[(?:INFO|WARNING|ERROR|DEBUG|TRACE|EVENT|rank ?\d+)\]|(?:INFO|WARNING|ERROR|DEBUG)[ :]"
    r"|[IWEF]\d{4} \d\d:\d\d|Traceback \(most recent call last\)|[\w.]*(?:Error|Exception): "
    r"|iteration +\d+/|#\d+ (?:\d+\.\d|DONE|ERROR))"  # BuildKit's
)
_SCRIPT = r"#!.*\b(?:ba|da|z)?sh\b|#!.*\bpython"
_SOURCE = r"""#|r?(?:'''|\"{3})|import |from """
# What the shell reads; other lines are a log pasted below its command.
_SHELL_LINE = (
    r"[ \t]|#|-|[\w.]+=|.*\\$|(?:\w+=\S* )*(?:(?:ba|z)?sh |python3? |torchrun |accelerate )"
    r"|(?:export|source|cd|set|if|then|else|elif|fi|for|while|do|done|case|esac|mkdir|echo|exit)\b"
)
_LAUNCHES = r"(?m)^(?:export \w+=|source \S|.*\b(?:torchrun|accelerate|python3?) )"
_MOSTLY = 0.8


class FileKind(NamedTuple):
    """``reads`` is the command for it; {} is its name."""

    title: str
    reads: str


REPORT = FileKind("a JSON report", "judge {}")
SNAPSHOT = FileKind("a snapshot", "judge {}")
FLEET = FileKind("the merged report of many machines", "merge DIR")
DIAGNOSIS = FileKind("a diagnosis", "diagnose LOG --history {}")
RENDERED = FileKind("a report, not in JSON", "check --format json -o FILE")
LOCK = FileKind("the lock of a stack", "check --lock {}")
ROWS = FileKind("rows of the matrix", "matrix lint --matrix DIR")
SITE = FileKind("a file of expectations", "check --config {}")
SCRIPT = FileKind("a launch script", "lint {}")
CONFIGURATION = FileKind("the configuration of a launch", "lint {}")
MODEL = FileKind("the configuration of a model", "plan --model {}")
LOG = FileKind("a log", "diagnose {}")
ARCHIVE = FileKind("an archive", "diagnose {}")
REPORT_ARCHIVE = FileKind("an archive of `report`", "judge {}")
DUMP = FileKind("a dump of a run", "compare DIR DIR")
MACHINE = FileKind("a recorded machine", "check -l 0 --replay {}")
# Of another command, not the one that reads it.
_WRITES = {RENDERED: "writes one in JSON"}

# Top-level keys of a kind's JSON object, in the order of trial.
_JSON_KEYS = (
    (DIAGNOSIS, {"outcome", "kind"}),
    (RENDERED, {"$schema", "runs"}),
    (REPORT, {"verdict", "levels"}),
    (REPORT, {"device", "findings"}),
    (SNAPSHOT, {"tool_version", "taken_at"}),
    (MODEL, {"num_hidden_layers", "hidden_size"}),
    (MODEL, {"model_type", "architectures"}),
)
# For YAML, too; launch files have many forms.
_YAML_KEYS = (
    (LOCK, {"checkouts", "wheels"}),
    *((ROWS, {"schema", key}) for key in ("id", "failures", "hazards", "variables", "sources")),
    (CONFIGURATION, {"apiVersion", "kind"}),
    (CONFIGURATION, {"actor_rollout_ref"}),
    (CONFIGURATION, {"megatron_training"}),
    (SITE, {"expect"}),
    (SITE, {"acknowledged"}),
)
_FOLDERS = {"machine.yaml": MACHINE, "rank-0.jsonl": DUMP}


def refuse_other(path: str, *accepted: FileKind) -> None:
    """Raises DataError with the right command for a file or folder of another known kind."""
    _refuse(recognise(path), path, accepted)


def refuse_other_content(head: bytes, name: str, *accepted: FileKind) -> None:
    """The same for the content of ``name``."""
    _refuse(recognise_content(head[:HEAD_BYTES]), name, accepted)


def _refuse(kind: FileKind | None, path: str, accepted: tuple[FileKind, ...]) -> None:
    if kind is not None and kind not in accepted:
        raise DataError(f"{path}: {explain(kind, path)}")


def explain(kind: FileKind, path: str) -> str:
    name = "FILE" if path == "-" else shlex.quote(path)
    command = f"ascend-doctor {kind.reads.replace('{}', name)}"
    return f"{kind.title}; `{command}` {_WRITES.get(kind, 'reads it')}"


def recognise(path: str) -> FileKind | None:
    """None for a missing file and for ambiguous content."""
    try:
        if os.path.isdir(path):
            names = os.listdir(path)
            return next((kind for name, kind in _FOLDERS.items() if name in names), None)
        with os.fdopen(open_regular(path), "rb") as file:
            return recognise_content(file.read(HEAD_BYTES))
    except (OSError, ValueError):
        return None


def recognise_content(head: bytes) -> FileKind | None:
    if is_report_archive(head):
        return REPORT_ARCHIVE
    if head.startswith(_PACKED) or head[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return ARCHIVE
    text = head.decode("utf-8-sig", "replace").lstrip()
    if text.startswith("{"):
        return _recognise_json(text)
    if text.startswith(("<!doctype html", "<?xml")):
        return RENDERED if "ascend-doctor" in text else None
    return _recognise_text(text)


def _recognise_text(text: str) -> FileKind | None:
    reads_like_log = re.search(_LOG_LINE, text) is not None
    if reads_like_log:
        # A scheduler may print the script before its run's log; sources quote logs.
        return None if re.match(_SOURCE, text) else LOG
    if kind := _by_keys({*re.findall(r"^(\w+):", text, re.MULTILINE)}, _YAML_KEYS):
        return kind
    return SCRIPT if re.match(_SCRIPT, text) or _is_source(text) else None


def _is_source(text: str) -> bool:
    if "import " in text and python_of(text[: text.rfind("\n") + 1]) is not None:
        return True
    rows = [row for row in text.splitlines() if row.strip()]
    shell = sum(bool(re.match(_SHELL_LINE, row)) for row in rows)
    return re.search(_LAUNCHES, text) is not None and shell > _MOSTLY * len(rows)


def _recognise_json(text: str) -> FileKind | None:
    if text.startswith('{"format":"ascend-doctor-dump"'):
        return DUMP
    kind = _by_keys(_list_top_keys(text), _JSON_KEYS)
    merged = kind is REPORT and re.search(r'"device"\s*:\s*"fleet"', text)
    return FLEET if merged else kind


def _by_keys(keys: set[str], rows: tuple[tuple[FileKind, set[str]], ...]) -> FileKind | None:
    return next((kind for kind, needed in rows if needed <= keys), None)


def _list_top_keys(text: str) -> set[str]:
    keys, depth, before = set(), 0, ""
    for word in re.findall(_WORD, text):
        if word in "{[":
            depth += 1
        elif word in "}]":
            depth -= 1
        elif word == ":" and depth == 1:
            keys.add(before.strip('"'))
        before = word
    return keys
