"""Hosts in network namespaces: one switch for control, one for data, and faults on the latter."""

import contextlib
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence

import pytest

from tests.programs import run_program

CONTROL, DATA = "10.213.0.{}", "10.214.0.{}"
PORT = 29431
# Faults of a host's data network. A rate limit behind a half-second buffer loses nothing; incoming
# packets are lost at random; a cable is pulled at the switch.
RANDOM = "-m statistic --mode random --probability 0.08 -j DROP"
FAULTS = {
    "slow": ("tc -n {sw} qdisc add dev d{n} root tbf rate 8mbit burst 16kb latency 500ms",),
    "lossy": ("ip netns exec {host} iptables -A INPUT -i data0 " + RANDOM,),
    "cut": ("ip -n {sw} link set d{n} down",),
    "gone": ("ip -n {sw} link set d{n} down", "ip -n {sw} link set c{n} down"),
}


class Lab:
    """``count`` hosts, from 0. Each has control0, data0 and a host name."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._name = f"adt{uuid.uuid4().hex[:6]}"
        self.switch = f"{self._name}-sw"

    def host(self, number: int) -> str:
        return f"{self._name}-{number}"

    def build(self) -> None:
        run(f"ip netns add {self.switch}")
        for network in ("control", "data"):
            run(f"ip -n {self.switch} link add {network} type bridge")
            run(f"ip -n {self.switch} link set {network} up")
        for number in range(self.count):
            host = self.host(number)
            run(f"ip netns add {host}")
            run(f"ip -n {host} link set lo up")
            for bridge, end, network in (("control", "c", CONTROL), ("data", "d", DATA)):
                port = f"{end}{number}"
                run(
                    f"ip -n {self.switch} link add {port} type veth"
                    f" peer name {bridge}0 netns {host}"
                )
                run(f"ip -n {self.switch} link set {port} master {bridge} up")
                run(f"ip -n {host} addr add {network.format(number + 1)}/24 dev {bridge}0")
                run(f"ip -n {host} link set {bridge}0 up")

    def spoil(self, number: int, fault: str) -> None:
        for line in FAULTS[fault]:
            run(line.format(sw=self.switch, host=self.host(number), n=number))

    def part(self, left: int, right: int) -> None:
        """Cut only the link between two hosts."""
        for host, other in ((left, right), (right, left)):
            source = DATA.format(other + 1)
            run(f"ip netns exec {self.host(host)} iptables -A INPUT -s {source} -j DROP")

    def mend(self) -> None:
        for number in range(self.count):
            host = self.host(number)
            run(f"ip netns exec {host} iptables -F INPUT")
            run(f"tc -n {self.switch} qdisc del dev d{number} root", check=False)
            for end in "cd":
                run(f"ip -n {self.switch} link set {end}{number} up")

    def start(
        self, number: int, command: Sequence[str], **options: object
    ) -> subprocess.Popen[str]:
        """Start a program on a host; SIGKILL when this process ends."""
        name = f"n{number}"
        within = ("ip", "netns", "exec", self.host(number), "unshare", "--uts")
        shell = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", 'hostname "$0"; exec "$@"', name)
        process: subprocess.Popen[str] = subprocess.Popen(
            [*within, *shell, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,  # type: ignore[call-overload]
        )
        return process

    def processes(self, number: int) -> list[int]:
        listing = run(f"ip netns pids {self.host(number)}", check=False)
        return [int(word) for word in listing.split()]

    def end(self) -> None:
        for number in range(self.count):
            for pid in self.processes(number):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            run(f"ip netns del {self.host(number)}", check=False)
        run(f"ip netns del {self.switch}", check=False)


def run(line: str, *, check: bool = True) -> str:
    done = run_program(line.split(), check=False, timeout=30)
    if check and done.returncode:
        raise RuntimeError(f"{line}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def lab(count: int) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    absent = [
        program
        for program in ("ip", "tc", "iptables", "unshare", "setpriv")
        if not shutil.which(program)
    ]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    made = Lab(count)
    try:
        try:
            made.build()
            for fault in ("slow", "lossy"):
                made.spoil(0, fault)
            made.mend()
        except RuntimeError as error:
            pytest.skip(f"this kernel or container has no such networks: {error}")
        yield made
    finally:
        made.end()
