"""One srun over all nodes: its command, its end, and what nodes without a report left behind."""

import contextlib
import math
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.engine import Job, Silent
from ascend_doctor.fleet.hostlist import compress, parse_hosts
from ascend_doctor.fleet.slurm import Slurm, State
from ascend_doctor.machine.live import wait_for
from ascend_doctor.machine.search_path import locate

# Under Slurm's name of the node: several slurmd of one machine share its host name. The shell
# outlives Slurm's SIGTERM, so the check can write what it has, and an unending check is found below
# it (man slurm.conf, ProctrackType).
_ON_NODE = """trap : TERM INT
node=$SLURMD_NODENAME folder=$1; shift
if ! true >"$folder/$node.log"; then
  echo "$node: cannot write to $folder, which every node has to see" >&2; exit
fi
"$@" --format json -o "$folder/$node.json" >"$folder/$node.log" 2>&1
echo $? >"$folder/$node.exit"
"""
_POLL = 0.2
# Each is a call of the controller, which has other users.
_ASK_EVERY = 2.0
# The last shares of the time: for checks to write what they have, and for Slurm to end the rest.
_GRACE, _GRACE_SHARE = 15.0, 0.1
_KILLED = "137"  # 128 and SIGKILL, as a shell says it


class SlurmStep:
    def __init__(
        self,
        slurm: Slurm,
        job: Job,
        nodes: tuple[str, ...],
        *,
        doctor: tuple[str, ...],
        words: tuple[str, ...],
    ) -> None:
        self.slurm = slurm
        self.job = job
        self.doctor = doctor
        self.words = words
        self.nodes = nodes
        self.name = f"ascend-doctor-{secrets.token_hex(4)}"
        self.log = os.path.join(job.folder, "srun.out")
        self.grace = min(_GRACE, job.deadline * _GRACE_SHARE)
        self.waiting_for = ""
        self.late = False

    @property
    def argv(self) -> tuple[str, ...]:
        """Of srun: one task a node; a lost node does not end the others."""
        count = len(self.nodes) or self.job.count
        where = (
            # Other steps in the allocation may hold the CPUs, and this one would wait.
            ("--overlap",)
            if self.slurm.allocation
            # Slurm counts whole minutes; the deadline is ours.
            else (f"--time={math.ceil(self.job.deadline / 60) + 1}", "--no-kill")
        )
        named = (f"--nodelist={compress(self.nodes)}",) if self.nodes else ()
        return (
            # --wait=0: a node that ends first does not end the others.
            *("srun", f"--job-name={self.name}", "--input=none", "--wait=0"),
            *(f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"),
            # Without it a task, and its measurements, are bound to one core.
            *("--cpu-bind=none", "--kill-on-bad-exit=0", *where, *named, *self.words, "--"),
            *("sh", "-c", _ON_NODE, "sh", self.job.folder, *self.doctor, "check"),
            *self.job.check,
        )

    @contextlib.contextmanager
    def start(self) -> Iterator[None]:
        """While srun runs; afterwards Slurm has nothing left of the step."""
        try:
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(  # noqa: S603 - no shell
                    (locate("srun", os.environ) or "srun", *self.argv[1:]),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise DataError(f"srun: {error.strerror}") from error
        try:
            yield
        finally:
            if self.process.poll() is None:
                self._end()

    def wait(self, end: float) -> None:
        """Until srun's end or the deadline. Learns the nodes that Slurm chose."""
        asked = 0.0
        while self.process.poll() is None:
            now = time.monotonic()
            if now > end - 2 * self.grace:
                self.late = True
                return
            if not self.nodes and now - asked > _ASK_EVERY:
                asked = now
                with contextlib.suppress(DataError):
                    self._look()
            time.sleep(_POLL)

    def _look(self) -> None:
        answer = self.slurm.ask(
            "squeue", "--noheader", f"--name={self.name}", "-o", "%N|%r"
        ).strip()
        nodes, _, reason = answer.partition("|")
        self.waiting_for = reason
        if nodes:
            self.nodes = parse_hosts(nodes, name="squeue")

    def _end(self) -> None:
        """Let checks write, then cancel: srun sends SIGKILL at once (man srun, SIGNALS)."""
        with contextlib.suppress(DataError):
            self._look()
            for job in self._jobs_left() if any(map(self._began, self.nodes)) else ():
                self.slurm.ask("scancel", "--quiet", "--signal=TERM", job)
                wait_for(self.process, self.grace)
        self.process.terminate()
        with contextlib.suppress(DataError):
            for job in self._jobs_left():
                self.slurm.ask("scancel", "--quiet", job)
            end = time.monotonic() + self.grace
            while time.monotonic() < end and self._jobs_left():
                time.sleep(_POLL)
        wait_for(self.process, _POLL)
        self.process.kill()
        self.process.wait()

    def _jobs_left(self) -> list[str]:
        which = ("--steps", f"--jobs={self.slurm.allocation}") if self.slurm.allocation else ()
        rows = self.slurm.ask("squeue", "--noheader", *which, "-o", "%i|%j").splitlines()
        return [job for job, _, name in (row.partition("|") for row in rows) if name == self.name]

    def silent(self, states: Mapping[str, State]) -> tuple[Silent, ...]:
        """Nodes without a report, with reasons from them and Slurm. Raises DataError."""
        log_lines = _text(self.log).splitlines()
        if not self.nodes:
            self.nodes = tuple(
                name.removesuffix(".log")
                for name in sorted(os.listdir(self.job.folder))
                if name.endswith(".log")
            )
        if not self.nodes or not (self.late or any(map(self._began, self.nodes))):
            why = f"Slurm gave no nodes: {self.waiting_for}" if self.late else _last(log_lines)
            raise DataError("srun: " + why.removeprefix("srun: "))
        return tuple(
            Silent(node, self._reason(node, states, log_lines))
            for node in self.nodes
            if not os.path.exists(self._file(node, "json"))
        )

    def _file(self, node: str, ending: str) -> str:
        return os.path.join(self.job.folder, f"{node}.{ending}")

    def _began(self, node: str) -> bool:
        return os.path.exists(self._file(node, "log"))

    def _reason(self, node: str, states: Mapping[str, State], lines: Sequence[str]) -> str:
        code = _text(self._file(node, "exit")).strip()
        # If Slurm kills a step, the shell may report the check before its own end.
        if code and not (self.late and code == _KILLED):
            last = _last(_text(self._file(node, "log")).splitlines())
            return f"the check ended with {code}: {last}"
        if node in states and states[node].away():
            return str(states[node])
        # srun writes names of nodes among punctuation.
        reasons = [row for row in lines if node in row.replace(":", " ").replace(",", " ").split()]
        if reasons and not self._began(node):
            return reasons[-1]
        seconds = f"{self.job.deadline:g} s"
        if self._began(node):
            return f"had not ended after {seconds}" if self.late else "was ended from outside"
        if self.waiting_for and self.waiting_for != "None":
            return f"Slurm gave no node within {seconds}: {self.waiting_for}"
        return f"had not begun after {seconds}" if self.late else f"not started: {_last(lines)}"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""


def _last(rows: Sequence[str]) -> str:
    reasons = [row.strip() for row in rows if row.strip()]
    return reasons[-1] if reasons else "said nothing"
