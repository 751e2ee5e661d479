import errno
import socket
from pathlib import Path

import psutil
import pytest

from ascend_doctor.collect import environment as environment_module
from ascend_doctor.collect.environment import environment, parse_listening
from ascend_doctor.collect.interfaces import interfaces, listening_ports
from ascend_doctor.machine.live import LiveMachine


def test_they_are_what_psutil_sees() -> None:
    families = {socket.AF_INET, socket.AF_INET6}
    expected = {
        name: {
            address.address.partition("%")[0] for address in addresses if address.family in families
        }
        for name, addresses in psutil.net_if_addrs().items()
    }
    rows = interfaces()
    assert {row["name"]: set(row["addresses"]) for row in rows} == expected
    states = psutil.net_if_stats()
    assert {row["name"]: row["up"] for row in rows} == {
        name: states[name].isup for name in expected
    }


def test_a_listening_port_is_seen_by_both_ways() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.socket(socket.AF_INET6) as second:
        second.bind(("::1", 0))
        second.listen()
        ports = {first.getsockname()[1], second.getsockname()[1]}
        with socket.create_connection(first.getsockname()) as client:
            texts = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
            by_file = {port for text in texts for port in parse_listening(text)}
            for seen in (set(listening_ports()), by_file):
                assert ports <= seen
                assert client.getsockname()[1] not in seen


def test_a_kernel_without_these_sockets_is_asked_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(errno.ENOENT, "no such family")

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(environment_module, "listening_ports", refuse)
        assert server.getsockname()[1] in (environment(LiveMachine(), ()).listening or ())
