"""The file of a rank: what was measured, a line each, in the order in which it was computed."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections import Counter
from typing import Any

import torch

from ascend_recorder.measures import measure
from ascend_recorder.naming import Naming

SCHEMA = 1


class RankRecording:
    """The record of this process, for a number of steps.

    A step ends with a model's call after an optimizer's step.
    """

    def __init__(self, folder: str, steps: int) -> None:
        self.active = True
        self.naming = Naming()
        self.step = 0
        self.optimized = False
        self.weights: set[str] = set()
        self._folder = folder
        self._steps = steps
        self._calls: Counter[tuple[str, str]] = Counter()
        self._file: Any = None
        self._records = 0
        # Backward runs in other threads, which record gradients.
        self._lock = threading.RLock()
        # A job may end before its steps are over; its file is complete anyway.
        atexit.register(self.close)

    def disable(self) -> None:
        """Record nothing more, and leave the records to another process."""
        self.active = False
        self._file = None

    def close(self) -> None:
        """End the file; a file without its last line was cut off."""
        with self._lock:
            self.active = False
            if self._file is not None:
                self._line({"end": True, "records": self._records, "steps": self.step + 1})
                self._file.close()
                self._file = None

    def begin_call(self) -> None:
        with self._lock:
            if self.optimized:
                self.optimized = False
                if self.step + 1 >= self._steps:
                    self.close()
                    return
                self.step += 1
                self._calls.clear()

    def count(self, kind: str, name: str) -> int:
        with self._lock:
            self._calls[kind, name] += 1
            return self._calls[kind, name] - 1

    def add(self, kind: str, name: str, tensor: Any, **fields: Any) -> None:
        """Record a tensor, unless it has no elements. ``weights`` as for measure.

        A gradient is None if the loss does not depend on the tensor.
        """
        weights = fields.pop("weights", None)
        if not self.active or tensor is None or tensor.device.type == "meta":
            return
        try:
            values = measure(tensor, weights)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            text = str(error).partition("\n")[0][:200]
            sys.stderr.write(f"ascend-doctor: {kind} of {name} was not recorded: {text}\n")
            return
        record = {"step": self.step, "kind": kind, "name": name, **fields, **values}
        with self._lock:
            if self.active:
                if self._file is None:
                    self._open(tensor.device.type)
                self._records += 1
                self._line(record)

    def _open(self, device: str) -> None:
        distributed = torch.distributed
        joined = distributed.is_available() and distributed.is_initialized()
        rank = distributed.get_rank() if joined else int(os.environ.get("RANK", "0"))
        world = distributed.get_world_size() if joined else int(os.environ.get("WORLD_SIZE", "1"))
        os.makedirs(self._folder, exist_ok=True)
        number = 1
        while self._file is None:
            # Another process of the same number: a second job, or a restarted rank.
            name = f"rank-{rank}.jsonl" if number == 1 else f"rank-{rank}-{number}.jsonl"
            try:
                path = os.path.join(self._folder, name)
                self._file = open(path, "x", encoding="utf-8")  # noqa: SIM115 - until the end
            except FileExistsError:
                number += 1
        head = {
            "format": "ascend-doctor-dump",
            "schema": SCHEMA,
            "rank": rank,
            "world_size": world,
            "device": device,
            "torch": torch.__version__,
            "simulated": bool(os.environ.get("ASCEND_DOCTOR_SIMULATED")) and device == "npu",
        }
        self._line(head)

    def _line(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n")
        # A killed job leaves all that it had recorded.
        self._file.flush()
