import pytest

from ascend_doctor.checks.launch.visible_devices import visible
from ascend_doctor.checks.network.sockets import matching
from ascend_doctor.facts import HccnDevice, HccnPort, Interface, Limit, Snapshot, ToolError
from ascend_doctor.findings import Level
from tests.checks.machine import having, only, run
from tests.checks.server import GIB, a2, a3, ask, commands, conf, inside, npu, port

# --- inside the NPUs


def change_port(number: int, facts: Snapshot | None = None, **fields: object) -> Snapshot:
    facts = facts or a2()
    assert facts.hccn is not None
    count = len(facts.hccn.devices)
    ports = tuple(port(index, **(fields if index == number else {})) for index in range(count))
    return having(facts, "hccn", devices=ports)


def test_a_stale_address() -> None:
    facts = change_port(3, address="192.0.2.99")
    finding = only(
        "hccn-conf", facts, Level.WARNING, "device 3", "address_3=192.0.2.13", "192.0.2.99"
    )
    assert "-i 3 -ip -s address 192.0.2.13 netmask 255.255.255.0" in commands(finding)
    assert finding.devices == (3,)
    unset = change_port(3, address="", netmask="")
    finding = run("hccn-conf", unset)[0]
    assert "hccn_tool: not set" in finding.observed
    assert "-s address" not in commands(finding)


def test_other_settings_of_hccn_conf() -> None:
    facts = a2()
    assert facts.hccn is not None
    settings = {"gateway_0": "192.0.2.2", "netdetect_0": "192.0.2.3", "netmask_0": "255.255.0.0"}
    facts = having(facts, "hccn", conf={**conf(facts.hccn.devices), **settings})
    findings = run("hccn-conf", facts)
    assert len(findings) == 3
    text = "\n".join(map(commands, findings))
    assert "-gateway -s gateway 192.0.2.2" in text
    assert "-netdetect -s address 192.0.2.3" in text
    assert facts.hccn is not None
    word = having(a2(), "hccn", conf={**conf(facts.hccn.devices), "address_1": "word"})
    only("hccn-conf", word, Level.WARNING, "word")
    only("hccn-conf", change_port(3, address=None), Level.UNKNOWN, "did not report", "device 3")
    bare = having(a2(), "hccn", conf=None)
    lost = only("hccn-conf", bare, Level.WARNING, "There is no /etc/hccn.conf")
    assert "-i 7 -ip -s address 192.0.2.17 netmask 255.255.255.0" in commands(lost)
    assert run("hccn-conf", inside(bare))[0].level is Level.SKIPPED
    some = {key: value for key, value in conf(facts.hccn.devices).items() if not key.endswith("_6")}
    only("hccn-conf", having(a2(), "hccn", conf=some), Level.WARNING, "no address of device 6")


def test_addresses_of_the_npus() -> None:
    only("hccn-addresses", change_port(5, address=""), Level.ERROR, "Device 5 has no")
    finding = only("hccn-addresses", change_port(5, address="192.0.2.10"), Level.ERROR, "same")
    assert finding.devices == (0, 5)
    none = tuple(port(index, address="") for index in range(8))
    only("hccn-addresses", having(a2(), "hccn", devices=none), Level.OK, "no network addresses")
    first = having(having(a2(), "hccn", devices=none), "npus", devices=(npu(0, name="910A"),))
    only("hccn-addresses", first, Level.WARNING, "even inside one server")


def test_subnets_of_the_first_generation() -> None:
    def at(number: int, net: int) -> HccnDevice:
        return port(number, address=f"10.0.{net}.{number + 1}")

    first = having(a2(), "npus", devices=(npu(0, name="910A"),))
    right = tuple(at(index, index % 4) for index in range(8))
    assert run("hccn-addresses", having(first, "hccn", devices=right))[0].level is Level.OK
    wrong = (*right[:7], at(7, 9))
    only("hccn-addresses", having(first, "hccn", devices=wrong), Level.WARNING, "devices 3 and 7")
    silent = (*right[:7], port(7, address=None))
    only("hccn-addresses", having(first, "hccn", devices=silent), Level.UNKNOWN, "of device 7")


def test_gateways() -> None:
    only("hccn-gateway", change_port(1, gateway="198.51.100.1"), Level.WARNING, "192.0.2.0/24")
    only("hccn-gateway", change_port(1, gateway=None), Level.UNKNOWN, "the gateway and its subnet")
    assert run("hccn-gateway", change_port(1, gateway=""))[0].level is Level.OK


def test_links() -> None:
    optics = {"Tx Los Flag": "0xff"}
    finding = only(
        "hccn-link", change_port(2, link="DOWN", optical=optics), Level.ERROR, "Tx Los Flag 0xff"
    )
    assert "for i in 2; do sudo" in commands(finding)
    flapping = change_port(2, link_changes=("UP", "DOWN", "UP"), link_ups=2)
    only("hccn-link", flapping, Level.OK, "came up 2 times")
    ports = (HccnPort(udie=0, port=1, link="UP"), HccnPort(udie=0, port=2, link="DOWN"))
    only("hccn-link", change_port(2, ports=ports), Level.OK, "0/2 DOWN")


def test_links_that_no_job_of_one_server_needs() -> None:
    all_down = tuple(port(index, link="DOWN") for index in range(8))
    only("hccn-link", having(a2(), "hccn", devices=all_down), Level.WARNING, "devices 0-7")
    only("hccn-link", change_port(2, a3(), link="DOWN"), Level.WARNING, "devices 2")


@pytest.mark.parametrize(("state", "words"), [("FLAPPING", "neither"), (None, "did not tell")])
def test_a_link_that_is_not_known_to_be_up(state: str | None, words: str) -> None:
    only("hccn-link", change_port(2, link=state), Level.UNKNOWN, words, "device 2")
    of_950 = having(a2(), "npus", devices=(npu(0, name="Ascend950PR"),))
    none_up = (HccnPort(udie=0, port=1, link="DOWN"), HccnPort(udie=0, port=2, link="DOWN"))
    only("hccn-link", change_port(2, of_950, ports=none_up), Level.WARNING, "devices 2")


def test_a_question_that_a_product_does_not_know_is_left_out() -> None:
    for check, question, field in (
        ("hccn-health", "-net_health", "health"),
        ("hccn-tls", "-tls", "tls"),
        ("hccn-gateway", "-gateway", "gateway"),
        ("hccn-link", "-link", "link"),
        ("hccn-addresses", "-ip", "address"),
    ):
        silent = change_port(0, **{field: None})
        assert run(check, silent)[0].level is Level.UNKNOWN, check
        of_product = change_port(0, unsupported=(question,), **{field: None})
        assert run(check, of_product)[0].level is Level.OK, check


@pytest.mark.parametrize("state", ["Success", "Init", "Detect ip set"])
def test_health_that_is_no_fault(state: str | None) -> None:
    assert run("hccn-health", change_port(0, health=state))[0].level is Level.OK


def test_network_health() -> None:
    only("hccn-health", change_port(0, health="Socket fail"), Level.WARNING, "Socket fail")
    only("hccn-health", change_port(0, health="Unknown"), Level.UNKNOWN, "could not be told")
    only("hccn-health", change_port(0, health="Degraded"), Level.UNKNOWN, "Degraded")


def test_tls() -> None:
    finding = only(
        "hccn-tls", change_port(4, tls=True), Level.ERROR, "on: 4; off: 0-3,5-7", "EI0016"
    )
    assert "for i in 4; do" in commands(finding)
    only("hccn-tls", change_port(4, tls=None), Level.UNKNOWN, "the TLS switch of device 4")


def test_hccn_tool_is_for_root() -> None:
    error = ToolError(kind="permission", text="permission denied")
    facts = having(a2(), "hccn", devices=(HccnDevice(device=0, error=error),), error=error)
    finding = only("hccn-tool", facts, Level.UNKNOWN, "for root", "permission denied")
    assert "sudo" in commands(finding)
    assert run("hccn-link", facts)[0].level is Level.SKIPPED
    hung = ToolError(kind="timeout", text="no answer")
    only("hccn-tool", having(a2(), "hccn", error=hung), Level.UNKNOWN, "does not answer (timeout)")


def test_hccn_tool_and_one_device() -> None:
    busy = ToolError(kind="busy", text="hccn_tool is busy")
    facts = having(a2(), "hccn", devices=(port(0), HccnDevice(device=1, error=busy)))
    only("hccn-tool", facts, Level.UNKNOWN, "device 1", "busy")
    only("hccn-link", facts, Level.UNKNOWN, "did not answer for devices 1-7")


def test_hccn_tool_is_not_there() -> None:
    facts = having(a2(), "hccn", tool="", devices=())
    only("hccn-tool", facts, Level.UNKNOWN, "hccn_tool is not there")
    only("hccn-tool", inside(facts), Level.UNKNOWN, "mount it")
    none = having(facts, "driver", nodes=())
    assert run("hccn-tool", none)[0].level is Level.SKIPPED


# --- the host's network

CARDS = tuple(Interface(name=name) for name in ("docker0", "enp1", "eth0", "eth1", "lo"))


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("eth", ["eth0", "eth1"]),
        ("eth,enp", ["enp1", "eth0", "eth1"]),
        ("^eth,lo", ["docker0", "enp1"]),
        ("=eth0,enp1", ["enp1", "eth0"]),
        ("^=eth0", ["docker0", "enp1", "eth1", "lo"]),
        ("=eth", []),
    ],
)
def test_forms_of_the_interface_filter(value: str, names: list[str]) -> None:
    assert [interface.name for interface in matching(value, CARDS)] == names


def test_interfaces() -> None:
    only(
        "socket-interface",
        a2(HCCL_SOCKET_IFNAME="bond"),
        Level.ERROR,
        "EI0001",
        "eth0 (192.0.2.200",
    )
    only("socket-interface", a2(GLOO_SOCKET_IFNAME="eth"), Level.ERROR, "cannot connect")
    only("socket-interface", a2(TP_SOCKET_IFNAME="bond0"), Level.WARNING, "TP_SOCKET_IFNAME")
    only("socket-interface", a2(HCCL_SOCKET_IFNAME="=eth9"), Level.WARNING, "no address")
    two = a2(HCCL_SOCKET_IFNAME="=eth0", GLOO_SOCKET_IFNAME="docker0")
    only("socket-interface", two, Level.WARNING, "different interfaces")
    fine = a2(HCCL_SOCKET_IFNAME="eth", GLOO_SOCKET_IFNAME="eth0,lo")
    assert run("socket-interface", fine)[0].level is Level.OK
    assert run("socket-interface", a2())[0].level is Level.SKIPPED
    blind = having(fine, "environment", interfaces=None)
    only("socket-interface", blind, Level.UNKNOWN, "which network interfaces")


def test_address_of_the_host() -> None:
    only("socket-address", a2(HCCL_IF_IP="192.0.2.7"), Level.ERROR, "no address of this host")
    only("socket-address", a2(HCCL_IF_IP="172.17.0.1"), Level.WARNING, "docker0")
    only("socket-address", a2(HCCL_IF_IP="127.0.0.1"), Level.WARNING, "address of lo")
    for fine in ("192.0.2.200", "2001:DB8:0::1", "no address"):
        assert run("socket-address", a2(HCCL_IF_IP=fine))[0].level is Level.OK


def test_the_interface_that_hccl_takes() -> None:
    cards = tuple(
        Interface(name=name, addresses=("192.0.2.1",), up=True) for name in ("ib0", "eth0")
    )
    facts = having(a2(), "environment", interfaces=cards)
    only("socket-default", facts, Level.OK, "HCCL takes eth0, the first of 2")
    assert run("socket-default", a2(HCCL_SOCKET_IFNAME="eth"))[0].level is Level.SKIPPED


def test_ports_in_use() -> None:
    facts = having(a2(), "environment", listening=(60001, 60003))
    finding = only("ports-free", facts, Level.WARNING, "60001, 60003", "60000-60031 free")
    assert "export HCCL_IF_BASE_PORT=61000" in commands(finding)
    other = having(a2(HCCL_IF_BASE_PORT="50000"), "environment", listening=(60001,))
    assert run("ports-free", other)[0].level is Level.OK
    ranged = a2(HCCL_HOST_SOCKET_PORT_RANGE="50000,50010-50011")
    only(
        "ports-free",
        having(ranged, "environment", listening=(50011,)),
        Level.WARNING,
        "50000,50010",
    )
    auto = having(a2(HCCL_HOST_SOCKET_PORT_RANGE="auto"), "environment", listening=(60001,))
    assert run("ports-free", auto)[0].level is Level.OK
    only("ports-free", having(a2(), "environment", listening=None), Level.UNKNOWN, "in use")


def test_a_base_that_is_free() -> None:
    facts = having(a2(), "environment", listening=(60000, 61005), local_port_range=(1024, 65535))
    assert "HCCL_IF_BASE_PORT=61100" in commands(run("ports-free", facts)[0])


def test_a_busy_master_port_is_reported_with_a_free_one() -> None:
    busy = having(a2(MASTER_PORT="29501"), "environment", listening=(29500, 29501))
    finding = only("ports-free", busy, Level.WARNING, "MASTER_PORT 29501")
    assert "export MASTER_PORT=29502" in commands(finding)
    plain = having(a2(), "environment", listening=(29500,))
    default = only("ports-free", plain, Level.WARNING, "torchrun's default 29500")
    assert "MASTER_PORT" not in commands(default)
    assert default.remedy is not None
    assert "--master_port=29501" in default.remedy.summary
    far = having(a2(MASTER_ADDR="192.0.2.1"), "environment", listening=(29500,))
    assert run("ports-free", far)[0].level is Level.OK
    only("ports-free", a2(MASTER_PORT="60005"), Level.WARNING, "among the ports of HCCL")
    assert run("ports-free", a2(MASTER_PORT="many"))[0].level is Level.OK


def test_reserved_ports() -> None:
    facts = having(a2(), "environment", reserved_ports="")
    finding = only("ports-reserved", facts, Level.WARNING, "32 ports", "reserved: none")
    assert "sudo sysctl -w net.ipv4.ip_local_reserved_ports=60000-60031" in commands(finding)
    facts = having(a2(), "environment", reserved_ports="60000-60015")
    finding = only("ports-reserved", facts, Level.WARNING, "16 ports")
    assert "ports=60000-60015,60000-60031" in commands(finding)
    low = having(facts, "environment", local_port_range=(32768, 59999))
    assert run("ports-reserved", low)[0].level is Level.OK


# --- visible devices


@pytest.mark.parametrize(
    ("value", "count", "ids"),
    [
        ("0,1,2", 8, (0, 1, 2)),
        ("0, 1,2", 8, (0,)),
        ("1,3,8", 8, (1, 3)),
        ("0-7", 8, ()),
        ("4,5", 4, ()),
        ("", 8, ()),
        ("0,,1", 8, (0,)),
        ("0,\N{FULLWIDTH DIGIT ONE}", 8, (0,)),
    ],
)
def test_what_the_runtime_reads(value: str, count: int, ids: tuple[int, ...]) -> None:
    assert visible(value, count) == ids


@pytest.mark.parametrize(
    ("value", "words", "remedy"),
    [
        ("0, 1,2", ("entry ' 1'", "digits only"), "=0,1,2"),
        ("0-3", ("entry '0-3'", "Ranges are for"), "=0,1,2,3"),
        ("3,2,1", ("does not rise", "0 devices"), "=1,2,3"),
        ("1,1", ("twice", "EE2002"), "=1"),
        ("0,8", ("entry '8'", "there is no device 8"), "=0"),
        ("", ("hides every device",), "unset ASCEND_RT_VISIBLE_DEVICES"),
        ("all", ("entry 'all'",), "unset ASCEND_RT_VISIBLE_DEVICES"),
    ],
)
def test_lists_of_devices(value: str, words: tuple[str, ...], remedy: str) -> None:
    finding = only("visible-devices", a2(ASCEND_RT_VISIBLE_DEVICES=value), Level.ERROR, *words)
    assert remedy in commands(finding)


def test_lists_that_are_fine() -> None:
    assert run("visible-devices", a2(ASCEND_RT_VISIBLE_DEVICES="0,1,7"))[0].level is Level.OK
    assert run("visible-devices", a3(ASCEND_RT_VISIBLE_DEVICES="8,15"))[0].level is Level.OK
    assert run("visible-devices", a2())[0].level is Level.SKIPPED


def test_devices_that_cannot_be_counted() -> None:
    facts = having(a2(ASCEND_RT_VISIBLE_DEVICES="0,1"), "driver", nodes=())
    cut = having(facts, "npus", complete=False, error=ToolError(kind="timeout", text=""))
    only("visible-devices", cut, Level.UNKNOWN, "how many devices")
    table = having(facts, "npus", complete=True)
    assert run("visible-devices", table)[0].level is Level.OK
    none = having(facts, "npus", devices=())
    only("visible-devices", none, Level.ERROR, "no list: there is no device here")


def test_a_device_for_every_process() -> None:
    (finding,) = ask("process-count", a2(), nproc=16)
    assert finding.level is Level.ERROR
    assert "--nproc asks for 16 processes, and 8 devices" in finding.title
    assert "ascend-doctor check --nproc 8" in commands(finding)
    assert ask("process-count", a3(), nproc=16)[0].level is Level.OK
    (finding,) = ask("process-count", a2(ASCEND_RT_VISIBLE_DEVICES="0,1"), nproc=4)
    assert "2 devices of 8, by ASCEND_RT_VISIBLE_DEVICES='0,1'" in finding.observed


def test_processes_of_launch_scripts() -> None:
    finding = only("process-count", a2(NPROC_PER_NODE="16"), Level.ERROR, "NPROC_PER_NODE")
    assert "export NPROC_PER_NODE=8" in commands(finding)
    only("process-count", a3(NPUS_PER_NODE="8"), Level.OK, "leaves 8 of 16 devices idle")
    assert run("process-count", a2(NPROC_PER_NODE="gpu"))[0].level is Level.SKIPPED
    empty = a2(ASCEND_RT_VISIBLE_DEVICES="", NPROC_PER_NODE="8")
    assert "unset NPROC_PER_NODE" in commands(only("process-count", empty, Level.ERROR))
    (finding,) = ask("process-count", a2(ASCEND_RT_VISIBLE_DEVICES=""), nproc=1)
    assert finding.remedy is not None
    assert not finding.remedy.commands


def test_the_container_runtimes_variable_warns_outside_containers() -> None:
    facts = a2(ASCEND_VISIBLE_DEVICES="0-3")
    only("container-variable", facts, Level.WARNING, "All devices stay visible")
    only("container-variable", inside(facts), Level.OK, "numbers are those of the host")


# --- shared memory and limits


def test_little_shared_memory() -> None:
    facts = having(a2(), "host", shm_size=64 << 20, shm_free=None)
    assert "remount" in commands(only("shared-memory", facts, Level.WARNING, "64 MiB"))
    assert "--shm-size" in commands(only("shared-memory", inside(facts), Level.WARNING))
    assert "medium: Memory" in commands(
        only("shared-memory", inside(facts, "kubernetes"), Level.WARNING)
    )
    full = having(a2(), "host", shm_free=GIB // 2)
    only("shared-memory", full, Level.WARNING, "nearly full", "64 GiB")
    half = having(a2(), "host", shm_size=2 * GIB, shm_free=GIB)
    only("shared-memory", half, Level.WARNING, "2 GiB, 1 GiB free")
    only("shared-memory", having(a2(), "host", shm_size=None), Level.UNKNOWN, "the size of")


def test_limits() -> None:
    def limited(soft: int, hard: int, memory: int = -1) -> Snapshot:
        limits = (
            Limit(name="nofile", soft=soft, hard=hard),
            Limit(name="memlock", soft=memory, hard=memory),
        )
        return having(a2(), "host", limits=limits)

    finding = only("resource-limits", limited(1024, 1 << 20), Level.WARNING, "Only 1024 files")
    assert "ulimit -n 32768" in commands(finding)
    finding = only("resource-limits", inside(limited(1024, 4096)), Level.WARNING, "hard 4096")
    assert "--ulimit nofile=32768:32768" in commands(finding)
    assert only("resource-limits", limited(1024, 4096), Level.WARNING).remedy is not None
    finding = only("resource-limits", limited(65536, -1, 64 << 10), Level.WARNING, "64 kB")
    assert "limits.conf" in commands(finding)
    finding = only("resource-limits", inside(limited(65536, -1, 64 << 10)), Level.WARNING)
    assert "--ulimit memlock=-1" in commands(finding)
    assert run("resource-limits", limited(-1, -1))[0].level is Level.OK
    only("resource-limits", limited(10, -1), Level.WARNING, "hard unlimited")
    only("resource-limits", having(a2(), "host", limits=()), Level.UNKNOWN, "nofile and memlock")
