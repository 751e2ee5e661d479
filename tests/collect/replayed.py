"""Builds a replayed machine from values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ascend_doctor.machine.recorded import ReplayMachine


def replay(
    folder: Path,
    *,
    commands: Mapping[str, str | Mapping[str, Any]] | None = None,
    files: Mapping[str, str] | None = None,
    **recording: Any,
) -> ReplayMachine:
    answers = {
        name: {"stdout": answer} if isinstance(answer, str) else answer
        for name, answer in (commands or {}).items()
    }
    listing = {
        "origin": "values of a test",
        "commands": [{"name": name, **answer} for name, answer in answers.items()],
        **recording,
    }
    (folder / "root").mkdir(parents=True, exist_ok=True)
    for path, text in (files or {}).items():
        target = folder / "root" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (folder / "machine.yaml").write_bytes(msgspec.json.encode(listing))
    return ReplayMachine(folder)
