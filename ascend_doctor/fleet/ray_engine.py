"""The check on every node of a Ray cluster, by one actor a node."""

import contextlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Iterable

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.engine import Job, Silent
from ascend_doctor.machine.live import MODULE, wait_for

# Ray's time to release its cluster, before it is killed.
_MARGIN, _MARGIN_SHARE = 5.0, 0.1
# Shares of that: until the driver has told the last, and until it has let go.
_OF_IT_FOLLOWED, _OF_IT_WAITED = 0.5, 0.4
_PATIENCE = 5.0


class NodeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's order, a line of JSON on its standard input."""

    address: str
    job: Job


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the driver: its nodes, then those without a report; or why there are none."""

    nodes: tuple[str, ...] = ()
    silent: Silent | None = None
    refused: str = ""


class RayEngine:
    """Ray runs in a separate process, which can be ended: its library waits, logs and aborts."""

    def __init__(self, address: str | None) -> None:
        self.address = address or "auto"

    def run(self, job: Job) -> tuple[Silent, ...]:
        if importlib.util.find_spec("ray") is None:
            raise DataError("--ray: Ray is not installed; pip install 'ascend-doctor[ray]'")
        margin = min(_MARGIN, job.deadline * _MARGIN_SHARE)
        own = msgspec.structs.replace(job, deadline=job.deadline - margin)
        patience = _PATIENCE
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(  # noqa: S603 - a module of ours, no shell
                [*MODULE, "ascend_doctor.fleet.ray_driver"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                _send(process, NodeOrder(address=self.address, job=own))
                ended = wait_for(process, own.deadline + margin * _OF_IT_FOLLOWED)
                patience = margin * _OF_IT_WAITED
            finally:
                _end(process, patience)
            output.seek(0)
            errors.seek(0)
            answers = _parse_answers(output.read())
            last = errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        return self._outcome(answers, job, ended=ended, last=last)

    def _outcome(
        self, answers: Iterable[Told], job: Job, *, ended: bool, last: str
    ) -> tuple[Silent, ...]:
        nodes: tuple[str, ...] = ()
        silent: dict[str, Silent] = {}
        for answer in answers:
            if answer.refused:
                raise DataError(f"--ray {self.address}: {answer.refused}")
            nodes = nodes or answer.nodes
            if answer.silent is not None:
                silent[answer.silent.node] = answer.silent
        reason = (
            f"Ray's driver ended before it reported: {last or 'no reason given'}"
            if ended
            else f"Ray gave no answer within {job.deadline:g} s"
        )
        if not nodes and not silent:
            raise DataError(f"--ray {self.address}: {reason}")
        for name in nodes:
            if not os.path.exists(os.path.join(job.folder, f"{name}.json")):
                silent.setdefault(name, Silent(name, reason))
        return tuple(silent.values())


def _send(process: subprocess.Popen[bytes], order: NodeOrder) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    """A closed standard input makes the driver let go of the cluster."""
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    if not wait_for(process, patience):
        process.kill()
        process.wait()


def _parse_answers(output: bytes) -> list[Told]:
    """The last line may be cut if the driver was killed."""
    answers = []
    for line in output.splitlines():
        with contextlib.suppress(msgspec.MsgspecError):
            answers.append(msgspec.json.decode(line, type=Told))
    return answers
