"""The options that say what is examined, and the collecting itself; shared by the commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.collect.launch import find_absent, launch
from ascend_doctor.collect.snapshot import SECTION_DEADLINE, Taking, take
from ascend_doctor.collect.storage import NAMED_BY
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.launch import examined_option
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.facts import Launch, Snapshot, StackLock
from ascend_doctor.machine.files import is_there
from ascend_doctor.machine.kinds import MACHINE
from ascend_doctor.machine.live import LiveMachine, Machine, strays_ended
from ascend_doctor.machine.recorded import RecordingMachine, ReplayMachine
from ascend_doctor.render.notices import notice

if TYPE_CHECKING:
    from ascend_doctor.redact import Redactor

# What the collectors follow; of other variables a recording has what the snapshot has.
_KEPT = (
    *("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("RANK_TABLE_FILE", "KUBERNETES_SERVICE_HOST", "ASCEND_DOCKER_RUNTIME"),
    "TORCH_EXTENSIONS_DIR",
    *NAMED_BY,
)


class Examination(msgspec.Struct, dict=True):
    machine: Machine
    python: str | None = None
    record: str | None = None
    overlays: tuple[str, ...] = ()
    replayed: bool = False
    simulated: bool = False
    lock: str | None = None

    def __post_init__(self) -> None:
        self.catalog = catalog(self.overlays)
        self.home = self.machine.env.get("HOME", "")
        self.strict = False
        self._taking = Taking(simulated=self.simulated)

    def so_far(self, why: str) -> tuple[Snapshot, Redactor]:
        """Facts collected so far; the rest are gaps that say ``why``."""
        facts = msgspec.structs.replace(self._taking.snapshot(why), started=self._programs())
        return facts, self.redactor(facts)

    def collect(
        self,
        *,
        command: Sequence[str] = (),
        deadline: float = SECTION_DEADLINE,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> tuple[Snapshot, Redactor]:
        """Collect all sections within ``deadline`` seconds, and what to hide of them.

        ``command`` is judged with it, ``meanwhile`` called during it. Raises DataError for an
        invalid interpreter or an unwritable recording.
        """
        recording = RecordingMachine(self.machine)
        machine: Machine = recording if self.record else self.machine
        with strays_ended():
            facts = take(
                machine,
                self.catalog,
                python=self.python,
                deadline=deadline,
                taking=self._taking,
                meanwhile=meanwhile,
            )
        locked = StackLock()
        if self.lock is not None:
            from ascend_doctor.collect.stack_lock import stack_lock

            locked = stack_lock(machine, self.lock)
        facts = msgspec.structs.replace(
            facts, started=self._programs(), launch=self._launch(command), stack_lock=locked
        )
        hidden = self.redactor(facts)
        if not self.record:
            return facts, hidden
        env = {name: self.machine.env[name] for name in _KEPT if name in self.machine.env}
        if (environment := facts.environment) is not None:
            env = {
                # Their values are private; that they are set is a fact.
                **dict.fromkeys(environment.withheld, ""),
                **env,
                **environment.variables,
            }
        recording.save(
            Path(self.record),
            origin=f"recorded by ascend-doctor {facts.tool_version} at {facts.taken_at}, redacted",
            python=self.python or "",
            clean=hidden.fact,
            env=env,
        )
        return facts, hidden

    def _launch(self, command: Sequence[str]) -> Launch:
        """What a command starts; of a shell script, the launch in it, if it is the only one."""
        absent = "" if self.replayed else find_absent(command)
        typed = msgspec.structs.replace(launch(command), absent=absent)
        script = next((word for word in command[:2] if word not in {"bash", "sh"}), "")
        if not script.endswith(".sh") or not is_there(script):
            return typed
        from ascend_doctor.linting.inputs import read, subjects

        inputs = subjects(script, read(script), self.catalog)
        launches = [each.launch for each in inputs if each.launch and each.launch.present]
        only = launches[0] if len(launches) == 1 else None
        what = "its launch alone is judged" if only else "not one launch to judge"
        notice(f"{what}; each line: ascend-doctor lint {shlex.quote(script)}")
        return only or typed

    def _programs(self) -> tuple[str, ...]:
        live = self.machine
        return tuple(sorted(live.started)) if isinstance(live, LiveMachine) else ()

    def redactor(self, facts: Snapshot) -> Redactor:
        """Knows what to hide of these facts and of their machine."""
        from ascend_doctor.redact import local_key, redactor

        hidden = redactor(facts, home=self.home, env=self.machine.env, key=local_key())
        hidden.strict = self.strict
        return hidden


def _gather(
    *,
    python: str | None,
    record: str | None,
    replay: str | None,
    lock: str | None,
    overlays: tuple[str, ...],
) -> Examination:
    if record and replay:
        raise click.UsageError("--record and --replay exclude each other")
    recorded = ReplayMachine(Path(replay)) if replay else None
    return Examination(
        recorded or LiveMachine(),
        python=python or (recorded.recording.python if recorded else "") or None,
        record=record,
        overlays=overlays,
        replayed=recorded is not None,
        lock=lock,
    )


add_target_options = gather_options(
    "examination",
    _gather,
    examined_option,
    click.option(
        "--record",
        metavar="DIR",
        help="Save what was read as a machine that can be replayed, redacted.",
    ),
    click.option(
        "--replay",
        metavar="DIR",
        type=InputFile(MACHINE),
        help="Examine a recorded machine (level 0).",
    ),
    click.option(
        "--lock", metavar="FILE", help="Report what differs from this ascend-doctor.lock."
    ),
    matrix_option,
)
