"""What a probe leaves behind: one result per rank, one run per launch."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = 1


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last word of one rank of one probe.

    ``stage`` is the last stage that the rank entered; ``values`` are measurements by name;
    ``error`` is the innermost exception as "Type: text"; ``seconds`` is the time in the probe.
    """

    schema: int = SCHEMA
    probe: str = ""
    rank: int = 0
    world_size: int = 1
    host: str = ""
    stage: str = ""
    stages: dict[str, float] = {}
    ok: bool | None = None
    skipped: str = ""
    values: dict[str, Any] = {}
    error: str = ""
    traceback: str = ""
    seconds: float | None = None


class ProbeRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One launch. ``missing`` are ranks without a record, ``output`` the last lines printed.

    ``exit_code`` is negative for a signal, None where the launch never ended by itself.
    ``not_started`` says why a probe that was asked for did not run.
    """

    probe: str
    device: str = ""
    world_size: int = 1
    argv: tuple[str, ...] = ()
    exit_code: int | None = None
    timed_out: bool = False
    ranks: tuple[ProbeResult, ...] = ()
    missing: tuple[int, ...] = ()
    output: str = ""
    seconds: float = 0.0
    not_started: str = ""
    simulated: bool = False
