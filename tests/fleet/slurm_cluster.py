"""A Slurm cluster of four nodes on this machine, with nothing of it outside one folder."""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.programs import free_ports, run_program

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo", "squeue", "scontrol")
NODES = tuple(f"node{number}" for number in range(1, 5))
_SBIN = "/usr/sbin:/sbin"
_PATIENCE = 120.0


class SlurmCluster:
    """munge, a controller and a slurmd a node. ``env``: for its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.prolog = folder / "prolog"
        path = f"{os.environ.get('PATH', '')}:{_SBIN}"
        self.env = {**os.environ, "PATH": path, "SLURM_CONF": str(self.conf)}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Come up, every node idle. Raises TimeoutError with the logs."""
        self._configure()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o600)
        munge = (
            *("munged", "--foreground", "--force", f"--key-file={key}"),
            *(f"--socket={self.folder / 'munge.sock'}", f"--pid-file={self.folder / 'munge.pid'}"),
            *(f"--seed-file={self.folder / 'seed'}", f"--log-file={self.folder / 'munge.log'}"),
        )
        self._daemon("munged", *munge)
        self.until((self.folder / "munge.sock").exists)
        self._daemon("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        for node in NODES:
            self.start_node(node)
        self.until(lambda: set(self.states().values()) == {"idle"})

    def start_node(self, node: str) -> None:
        """One slurmd, as its own process group."""
        self._daemon(node, "slurmd", "-D", "-N", node, "-f", str(self.conf))

    def kill_node(self, node: str) -> None:
        """As a power loss: the daemon and its children are gone at once."""
        daemon = self.daemons.pop(node)
        tasks = self.processes(f"SLURMD_NODENAME={node}")
        for pid in (daemon.pid, *self._steps_of(node), *tasks):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        daemon.wait()

    def run(
        self, *command: str, deadline: float, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return run_program(command, check=False, timeout=deadline, env=self.env, cwd=folder)

    def ask(self, *command: str) -> str:
        """A Slurm command's output. Raises CalledProcessError."""
        done = self.run(*command, deadline=60)
        done.check_returncode()
        return done.stdout

    def states(self) -> dict[str, str]:
        """States by node, as ``sinfo`` writes them; empty without an answer."""
        with contextlib.suppress(subprocess.CalledProcessError):
            rows = self.ask("sinfo", "--noheader", "-N", "-o", "%N %T").split("\n")
            return dict(row.split() for row in rows if row)
        return {}

    def idle(self) -> None:
        """Wait until nothing runs and every node takes jobs."""
        self.until(lambda: not self.ask("squeue", "--noheader"))
        for node in self.states():
            if node not in self.daemons:
                self.start_node(node)
        self.until(self._resume)

    def _resume(self) -> bool:
        """Whether all nodes are idle; resume others, which a late health check may drain."""
        states = self.states()
        for node, state in states.items():
            if state != "idle":
                # Refused if the node came back by itself.
                self.run("scontrol", "update", f"nodename={node}", "state=resume", deadline=60)
        return set(states.values()) == {"idle"}

    def stop(self) -> None:
        """End the daemons, then kill every process of the cluster."""
        daemons = list(self.daemons.values())
        for daemon in reversed(daemons):
            daemon.terminate()
        end = time.monotonic() + 10
        while time.monotonic() < end and any(daemon.poll() is None for daemon in daemons):
            time.sleep(0.1)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for daemon in daemons:
            daemon.kill()
            daemon.wait()

    def processes(self, *words: str) -> list[int]:
        """Processes of the cluster with all these environment words."""
        expected = {f"SLURM_CONF={self.conf}".encode(), *(word.encode() for word in words)}
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if expected <= {*(folder / "environ").read_bytes().split(b"\0")}:
                    pids.append(int(folder.name))
        return [pid for pid in pids if pid != os.getpid()]

    def jobs(self) -> list[int]:
        return [
            pid
            for pid in self.processes()
            if b"\0SLURM_JOB_ID=" in Path(f"/proc/{pid}/environ").read_bytes()
        ]

    def _steps_of(self, node: str) -> list[int]:
        """What stands between a slurmd and its tasks: it writes to the node's log."""
        log, pids = str(self.folder / f"{node}.log"), []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if any(os.readlink(path) == log for path in Path(f"/proc/{pid}/fd").iterdir()):
                    pids.append(pid)
        return pids

    def _configure(self) -> None:
        user = pwd.getpwuid(os.getuid()).pw_name
        host = socket.gethostname()
        ports = free_ports(len(NODES) + 1)
        nodes = "".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4\n"
            for node, port in zip(NODES, ports[1:], strict=True)
        )
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir()
        self.prolog.write_text("#!/bin/sh\nexit 0\n")
        self.prolog.chmod(0o755)
        self.conf.write_text(
            f"""ClusterName=doctor
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.sock
StateSaveLocation={self.folder}/state
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdSpoolDir={self.folder}/spool.%n
SlurmdPidFile={self.folder}/%n.pid
SlurmdLogFile={self.folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
ReturnToService=2
SlurmdTimeout=10
KillWait=5
SlurmdParameters=config_overrides
Prolog={self.prolog}
PrologFlags=Alloc
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
        )

    def _daemon(self, name: str, *command: str) -> None:
        program = shutil.which(command[0], path=self.env["PATH"]) or command[0]
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )

    def until(self, true: Callable[[], object]) -> None:
        """Raises TimeoutError with the logs."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if true():
                return
            time.sleep(0.2)
        logs = [
            f"{path.name}: {path.read_text('utf-8', 'replace')[-1000:]}"
            for path in sorted(self.folder.glob("*.log"))
        ]
        queue = self.ask("squeue", "--steps") + self.ask("squeue")
        raise TimeoutError("\n".join((str(self.states()), queue, str(self.jobs()), *logs)))


def missing() -> list[str]:
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A running cluster; its folder holds a socket and has a short name."""
    folder = Path(tempfile.mkdtemp(prefix="doctor-slurm-"))
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
