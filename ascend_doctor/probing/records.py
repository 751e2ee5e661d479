"""Reads the record that a rank writes while it runs: JSON lines, complete or cut anywhere."""

import contextlib
import json
import os
from typing import Any

import msgspec

from ascend_doctor.probe_results import ProbeResult, Wrong

# A rank may write without end, and its record is kept in memory.
RECORD_LIMIT = 8 << 20
STACK_LIMIT = 8000


class Record:
    def __init__(self, folder: str, rank: int) -> None:
        self.rank = rank
        self.pid: int | None = None
        self.stages: list[tuple[str, float]] = []
        self._path = os.path.join(folder, f"rank-{rank}")
        self._offset = 0
        self._rest = b""
        self._fields: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._wrong: list[Wrong] = []
        self._last_event = 0.0

    @property
    def started(self) -> bool:
        return self.pid is not None

    @property
    def ended(self) -> bool:
        return "ok" in self._fields

    def read(self) -> tuple[tuple[str, float], ...]:
        """Read what was added; the new stages, with the time of day of each."""
        known = len(self.stages)
        with contextlib.suppress(OSError), open(f"{self._path}.jsonl", "rb") as file:
            file.seek(self._offset)
            data = file.read(max(RECORD_LIMIT - self._offset, 0))
            self._offset += len(data)
            # The last line may be incomplete.
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(line)
        return tuple(self.stages[known:])

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            self._last_event = float(event["time"])
            self._apply(event)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return

    def _apply(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "start":
            self.pid = int(event["pid"])
            self._fields |= {key: str(event[key]) for key in ("probe", "host")}
            self._fields["world_size"] = int(event["world_size"])
        elif kind == "stage":
            self.stages.append((str(event["name"]), self._last_event))
        elif kind == "value":
            self._values[str(event["key"])] = event["value"]
        elif kind == "wrong":
            what, got, expected = (str(event[key]) for key in ("what", "got", "wanted"))
            self._wrong.append(Wrong(what=what, got=got, expected=expected))
        elif kind == "end":
            self._fields["ok"] = event["ok"] is True
            self._fields["seconds"] = float(event["seconds"])
            self._fields["compared"] = int(event["compared"])
            texts = ("skipped", "error", "traceback")
            self._fields |= {key: str(event.get(key, "")) for key in texts}

    def result(self, now: float) -> ProbeResult:
        """What is known of the rank. ``now``: the time of day of the run's end."""
        ended = now if self._fields.get("ok") is None else self._last_event
        times = [*(time for _, time in self.stages), ended]
        spent: dict[str, float] = {}
        for (name, begin), end in zip(self.stages, times[1:], strict=True):
            spent[name] = round(spent.get(name, 0.0) + max(end - begin, 0.0), 3)
        result = ProbeResult(
            rank=self.rank,
            stage=self.stages[-1][0] if self.stages else "",
            stages=spent,
            values=self._values,
            wrong=tuple(self._wrong),
            stack=self._stack(),
        )
        return msgspec.structs.replace(result, **self._fields)

    def _stack(self) -> str:
        try:
            with open(f"{self._path}.stack", encoding="utf-8", errors="replace") as file:
                return file.read(STACK_LIMIT)
        except OSError:
            return ""

    def silent(self, now: float) -> float | None:
        """Seconds since the last sign of life, None without any."""
        try:
            return max(round(now - os.stat(f"{self._path}.jsonl").st_mtime, 1), 0.0)
        except OSError:
            return None
