"""Takes a snapshot: every section on its own, with a deadline; a failure leaves a gap."""

import os
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from ascend_doctor import __version__, timestamps
from ascend_doctor.errors import DoctorError, Unknown
from ascend_doctor.facts import SECTIONS, Gap, Section, Snapshot
from ascend_doctor.machine.live import Machine, NotRecorded
from ascend_doctor.machine.refusals import RefusingMachine
from ascend_doctor.machine.waiting import Deadline
from ascend_doctor.matrix.catalog import Catalog

SECTION_DEADLINE = 60.0

# Those of a machine; launch, script and lock come from the command line.
_COLLECTED = tuple(
    section for section in SECTIONS if section not in {"launch", "script", "stack_lock"}
)

Collector = Callable[[dict[str, Section]], Section]


class Taking(msgspec.Struct, kw_only=True):
    """A snapshot in progress; an impatient caller reads what it has.

    ``only`` are the sections to collect.
    """

    only: tuple[str, ...] = _COLLECTED
    simulated: bool = False
    taken_at: str = ""
    outcomes: dict[str, Section | Exception] = msgspec.field(default_factory=dict)
    sections: dict[str, Section] = msgspec.field(default_factory=dict)
    gaps: list[Gap] = msgspec.field(default_factory=list)
    machine: RefusingMachine | None = None

    def snapshot(self, missing: str = "") -> Snapshot:
        """The sections so far; ``missing``, if given, is the reason for absent ones."""
        sections, gaps = dict(self.sections), list(self.gaps)
        if missing:
            gap_sections = {gap.section for gap in gaps}
            for name, outcome in tuple(self.outcomes.items()):
                if isinstance(outcome, Section) and name not in gap_sections:
                    sections.setdefault(name, _storable(outcome))
            gaps += [
                Gap(section=name, reason=missing)
                for name in _COLLECTED
                if name not in sections and name not in gap_sections
            ]
        collected: dict[str, Any] = dict(sections)
        return Snapshot(
            tool_version=__version__,
            taken_at=self.taken_at,
            simulated=self.simulated,
            refused=self.machine.refused if self.machine else (),
            gaps=tuple(sorted(gaps, key=lambda gap: gap.section)),
            **collected,
        )


def take(
    machine: Machine,
    catalog: Catalog,
    *,
    python: str | None = None,
    deadline: float = SECTION_DEADLINE,
    taking: Taking | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Snapshot:
    """All sections of this machine. Calls ``meanwhile`` once while the first collectors wait.

    Fills ``taking`` on the way. Raises only DataError, if ``python`` was given and cannot run.
    """
    taking = taking or Taking()
    taking.taken_at = timestamps.now()
    taking.machine = watched = RefusingMachine(machine)
    wait = Deadline(deadline, os.getpid())
    # It runs elsewhere, and what follows takes as long: imports of collectors and of checks.
    threads = _start({"python": lambda _: _ask_python(watched, python)}, taking)
    first, second = _waves(watched, catalog)
    threads |= _start(first, taking)
    meanwhile()
    _finish(threads, taking, wait)
    _finish(_start(second, taking), taking, wait)
    return taking.snapshot()


def _ask_python(machine: Machine, interpreter: str | None) -> Section:
    from ascend_doctor.collect.python import python

    return python(machine, interpreter)


def _waves(machine: Machine, catalog: Catalog) -> tuple[dict[str, Collector], dict[str, Collector]]:
    """Collectors by section; a later wave may read the sections of earlier ones."""
    from ascend_doctor.collect.build_locks import build_locks
    from ascend_doctor.collect.cann import cann
    from ascend_doctor.collect.driver import driver
    from ascend_doctor.collect.environment import environment
    from ascend_doctor.collect.hccl import rank_table
    from ascend_doctor.collect.hccn import hccn
    from ascend_doctor.collect.holders import holders
    from ascend_doctor.collect.host import host
    from ascend_doctor.collect.import_path import import_path
    from ascend_doctor.collect.native import native
    from ascend_doctor.collect.npus import npus
    from ascend_doctor.collect.storage import storage

    rows = catalog.variables
    return (
        {
            "npus": lambda _: npus(machine),
            "host": lambda _: host(machine, tuple(row.name for row in rows.limits)),
            "storage": lambda _: storage(machine),
            "driver": lambda _: driver(machine),
            "cann": lambda _: cann(machine),
            "environment": lambda _: environment(machine, rows.variables),
            "rank_table": lambda _: rank_table(machine),
            "holders": lambda _: holders(machine),
            "build_locks": lambda _: build_locks(machine),
        },
        {
            "native": lambda done: native(machine, _done(done, "python")),
            "import_path": lambda done: import_path(machine, _done(done, "python")),
            "hccn": lambda done: hccn(machine, _done(done, "driver")),
        },
    )


def _done(sections: dict[str, Section], name: str) -> Any:
    if name not in sections:
        raise Unknown(f"needs the section {name}, which could not be collected")
    return sections[name]


def _start(wave: dict[str, Collector], taking: Taking) -> dict[str, threading.Thread]:
    before, outcomes = dict(taking.sections), taking.outcomes

    def work(name: str, collector: Collector) -> None:
        try:
            outcomes[name] = collector(before)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes a gap
            outcomes[name] = error

    threads = {
        name: threading.Thread(target=work, args=(name, collector), daemon=True)
        for name, collector in wave.items()
        if name in taking.only
    }
    for thread in threads.values():
        thread.start()
    return threads


def _finish(threads: dict[str, threading.Thread], taking: Taking, wait: Deadline) -> None:
    for name, thread in threads.items():
        while thread.is_alive() and (left := wait.time_left()):
            thread.join(min(left, 1.0))
        outcome = taking.outcomes.get(name)
        if isinstance(outcome, Section):
            taking.sections[name] = _storable(outcome)
        elif isinstance(outcome, DoctorError):
            raise outcome
        else:
            taking.gaps.append(Gap(section=name, reason=_reason(outcome)))


def _storable(section: Section) -> Section:
    """The section with undecodable bytes of names and values as "?": it then encodes."""
    try:
        msgspec.json.encode(section)
    except UnicodeEncodeError:
        return msgspec.convert(_encodable(msgspec.to_builtins(section)), type(section))
    return section


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value


def _reason(outcome: Exception | None) -> str:
    if outcome is None:
        return "did not answer in time"
    if isinstance(outcome, Unknown | NotRecorded):
        return str(outcome)
    return f"{type(outcome).__name__}: {outcome}"
