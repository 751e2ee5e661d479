"""Lines that are JSON: of loggers, of docker's json-file and of journald."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ascend_doctor.diagnosis.origins import Origin

# docker: log; journald: MESSAGE (journalctl -o json, systemd.journal-fields(7)); others: loggers.
_MESSAGE = ("log", "MESSAGE", "message", "msg", "text", "event")
_MORE = ("exc_info", "exc_text", "exception", "traceback", "stack_trace", "stack", "error")
_NODE = ("_HOSTNAME", "hostname", "host", "node", "node_name", "pod_name")
_RANK = ("rank", "global_rank", "RANK")
_LOCAL = ("local_rank", "LOCAL_RANK")
_PROCESS = ("pid", "process_id")
_LEVEL = ("level", "levelname", "severity")
_RANKS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class JsonRecord:
    origin: Origin
    level: str
    lines: tuple[str, ...]


def record(text: str, origin: Origin) -> JsonRecord | None:
    if not text.startswith("{"):
        return None
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    texts = [_text(fields.get(name)) for name in (*_MESSAGE, *_MORE)]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    rank, local = _number(fields, _RANK), _number(fields, _LOCAL)
    node = _word(fields, _NODE)[:253]
    pid = _number(fields, _PROCESS)
    has_local, has_none = local is not None, rank is None and origin.local is None
    return JsonRecord(
        origin=replace(
            origin,
            rank=origin.rank if rank is None else rank,
            local=origin.local if local is None else local,
            launcher=node if node and (has_local or has_none) else origin.launcher,
            node=node or origin.node,
            process=origin.process if pid is None else f"pid {pid}",
        ),
        level=_word(fields, _LEVEL).upper()[:20],
        lines=tuple(lines),
    )


def _text(value: object) -> str:
    """Journald writes messages that are not plain text as numbers of their bytes."""
    if isinstance(value, list):
        try:
            return bytes(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return ""
    return value if isinstance(value, str) else ""


def _word(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str)), "")


def _number(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) < 8:  # noqa: PLR2004
            value = int(value)
        # A bool is an int to Python, but a flag to its writer.
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _RANKS:
            return value
    return None
