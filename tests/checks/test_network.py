import pytest

from ascend_doctor.checks.launch.visible_devices import visible
from ascend_doctor.checks.network.sockets import matching
from ascend_doctor.facts import HccnDevice, HccnPort, Interface, Limit, Snapshot, ToolError
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips, warns
from tests.checks.machine import having, run
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
    finding = warns("hccn-conf", facts, "device 3", "address_3=192.0.2.13", "192.0.2.99")
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
    warns("hccn-conf", word, "word")
    cannot_tell("hccn-conf", change_port(3, address=None), "did not tell", "device 3")
    bare = having(a2(), "hccn", conf=None)
    lost = warns("hccn-conf", bare, "There is no /etc/hccn.conf")
    assert "-i 7 -ip -s address 192.0.2.17 netmask 255.255.255.0" in commands(lost)
    skips("hccn-conf", inside(bare))
    some = {key: value for key, value in conf(facts.hccn.devices).items() if not key.endswith("_6")}
    warns("hccn-conf", having(a2(), "hccn", conf=some), "mask of device 6")


def test_addresses_of_the_npus() -> None:
    fails("hccn-addresses", change_port(5, address=""), "Device 5 has no")
    finding = fails("hccn-addresses", change_port(5, address="192.0.2.10"), "same")
    assert finding.devices == (0, 5)
    none = tuple(port(index, address="") for index in range(8))
    passes("hccn-addresses", having(a2(), "hccn", devices=none), "no network addresses")
    first = having(having(a2(), "hccn", devices=none), "npus", devices=(npu(0, name="910A"),))
    warns("hccn-addresses", first, "even inside one server")


def test_subnets_of_the_first_generation() -> None:
    def at(number: int, net: int) -> HccnDevice:
        return port(number, address=f"10.0.{net}.{number + 1}")

    first = having(a2(), "npus", devices=(npu(0, name="910A"),))
    right = tuple(at(index, index % 4) for index in range(8))
    passes("hccn-addresses", having(first, "hccn", devices=right))
    wrong = (*right[:7], at(7, 9))
    warns("hccn-addresses", having(first, "hccn", devices=wrong), "devices 3 and 7")
    silent = (*right[:7], port(7, address=None))
    cannot_tell("hccn-addresses", having(first, "hccn", devices=silent), "of device 7")


def test_gateways() -> None:
    warns("hccn-gateway", change_port(1, gateway="198.51.100.1"), "192.0.2.0/24")
    cannot_tell("hccn-gateway", change_port(1, gateway=None), "the gateway of device 1")
    warns("hccn-gateway", change_port(1, gateway=""), "device 1: not set; the others: 192.0.2.1")
    warns("hccn-gateway", change_port(1, gateway="192.0.2.254"), "is not that of the others")


def test_links() -> None:
    optics = {"Tx Los Flag": "0xff"}
    finding = fails("hccn-link", change_port(2, link="DOWN", optical=optics), "Tx Los Flag 0xff")
    assert "for i in 2; do sudo" in commands(finding)
    flapping = change_port(2, link_changes=("UP", "DOWN", "UP"), link_ups=2)
    passes("hccn-link", flapping, "came up 2 times")
    ports = (HccnPort(udie=0, port=1, link="UP"), HccnPort(udie=0, port=2, link="DOWN"))
    passes("hccn-link", change_port(2, ports=ports), "0/2 DOWN")


def test_links_that_no_job_of_one_server_needs() -> None:
    all_down = tuple(port(index, link="DOWN") for index in range(8))
    warns("hccn-link", having(a2(), "hccn", devices=all_down), "devices 0-7")
    warns("hccn-link", change_port(2, a3(), link="DOWN"), "devices 2")


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


@pytest.mark.parametrize("state", ["Success", "Detect ip set"])
def test_health_that_is_no_fault(state: str | None) -> None:
    passes("hccn-health", change_port(0, health=state))
    warns("hccn-health", change_port(0, health="Init"), "device 0: Init; the others: Success")


def test_hccn_tool_is_for_root() -> None:
    error = ToolError(kind="permission", text="permission denied")
    facts = having(a2(), "hccn", devices=(HccnDevice(device=0, error=error),), error=error)
    finding = cannot_tell("hccn-tool", facts, "for root", "permission denied")
    assert "sudo" in commands(finding)
    skips("hccn-link", facts)
    hung = ToolError(kind="timeout", text="no answer")
    cannot_tell("hccn-tool", having(a2(), "hccn", error=hung), "does not answer (timeout)")


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
    fails("socket-interface", a2(HCCL_SOCKET_IFNAME="bond"), "EI0001", "eth0 (192.0.2.200")
    fails("socket-interface", a2(GLOO_SOCKET_IFNAME="eth"), "cannot connect")
    warns("socket-interface", a2(TP_SOCKET_IFNAME="bond0"), "TP_SOCKET_IFNAME")
    warns("socket-interface", a2(HCCL_SOCKET_IFNAME="=eth9"), "no address")
    two = a2(HCCL_SOCKET_IFNAME="=eth0", GLOO_SOCKET_IFNAME="docker0")
    warns("socket-interface", two, "different interfaces")
    fine = a2(HCCL_SOCKET_IFNAME="eth", GLOO_SOCKET_IFNAME="eth0,lo")
    passes("socket-interface", fine)
    skips("socket-interface", a2())
    blind = having(fine, "environment", interfaces=None)
    cannot_tell("socket-interface", blind, "which network interfaces")


def test_address_of_the_host() -> None:
    fails("socket-address", a2(HCCL_IF_IP="192.0.2.7"), "no address of this host")
    warns("socket-address", a2(HCCL_IF_IP="172.17.0.1"), "docker0")
    warns("socket-address", a2(HCCL_IF_IP="127.0.0.1"), "address of lo")
    for fine in ("192.0.2.200", "2001:DB8:0::1", "no address"):
        passes("socket-address", a2(HCCL_IF_IP=fine))


def test_the_interface_that_hccl_takes() -> None:
    cards = tuple(
        Interface(name=name, addresses=("192.0.2.1",), up=True) for name in ("ib0", "eth0")
    )
    facts = having(a2(), "environment", interfaces=cards)
    passes("socket-default", facts, "HCCL takes eth0, the first of 2")
    skips("socket-default", a2(HCCL_SOCKET_IFNAME="eth"))


def test_ports_in_use() -> None:
    facts = having(a2(), "environment", listening=(60001, 60003))
    finding = warns("ports-free", facts, "60001, 60003", "60000-60031 free")
    assert "export HCCL_IF_BASE_PORT=61000" in commands(finding)
    other = having(a2(HCCL_IF_BASE_PORT="50000"), "environment", listening=(60001,))
    passes("ports-free", other)
    ranged = a2(HCCL_HOST_SOCKET_PORT_RANGE="50000,50010-50011")
    warns("ports-free", having(ranged, "environment", listening=(50011,)), "50000,50010")
    auto = having(a2(HCCL_HOST_SOCKET_PORT_RANGE="auto"), "environment", listening=(60001,))
    passes("ports-free", auto)
    cannot_tell("ports-free", having(a2(), "environment", listening=None), "in use")


def test_a_base_that_is_free() -> None:
    facts = having(a2(), "environment", listening=(60000, 61005), local_port_range=(1024, 65535))
    assert "HCCL_IF_BASE_PORT=61100" in commands(run("ports-free", facts)[0])


def test_a_busy_master_port_is_reported_with_a_free_one() -> None:
    busy = having(a2(MASTER_PORT="29501"), "environment", listening=(29500, 29501))
    finding = warns("ports-free", busy, "MASTER_PORT 29501")
    assert "export MASTER_PORT=29502" in commands(finding)
    plain = having(a2(), "environment", listening=(29500,))
    default = warns("ports-free", plain, "torchrun's default 29500")
    assert "MASTER_PORT" not in commands(default)
    assert "--master_port=29501" in remedy_of(default).summary
    far = having(a2(MASTER_ADDR="192.0.2.1"), "environment", listening=(29500,))
    passes("ports-free", far)
    warns("ports-free", a2(MASTER_PORT="60005"), "among the ports of HCCL")
    passes("ports-free", a2(MASTER_PORT="many"))


def test_reserved_ports() -> None:
    facts = having(a2(), "environment", reserved_ports="")
    finding = warns("ports-reserved", facts, "32 ports", "reserved: none")
    assert "sudo sysctl -w net.ipv4.ip_local_reserved_ports=60000-60031" in commands(finding)
    facts = having(a2(), "environment", reserved_ports="60000-60015")
    finding = warns("ports-reserved", facts, "16 ports")
    assert "ports=60000-60015,60000-60031" in commands(finding)
    low = having(facts, "environment", local_port_range=(32768, 59999))
    passes("ports-reserved", low)


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
    finding = fails("visible-devices", a2(ASCEND_RT_VISIBLE_DEVICES=value), *words)
    assert remedy in commands(finding)


def test_devices_that_cannot_be_counted() -> None:
    facts = having(a2(ASCEND_RT_VISIBLE_DEVICES="0,1"), "driver", nodes=())
    cut = having(facts, "npus", complete=False, error=ToolError(kind="timeout", text=""))
    cannot_tell("visible-devices", cut, "how many devices")
    table = having(facts, "npus", complete=True)
    passes("visible-devices", table)
    none = having(facts, "npus", devices=())
    fails("visible-devices", none, "no list: there is no device here")


def test_a_device_for_every_process() -> None:
    (finding,) = ask("process-count", a2(), nproc=16)
    assert finding.level is Level.ERROR
    assert "--nproc asks for 16 processes, and 8 devices" in finding.title
    assert "ascend-doctor check --nproc 8" in commands(finding)
    assert ask("process-count", a3(), nproc=16)[0].level is Level.OK
    (finding,) = ask("process-count", a2(ASCEND_RT_VISIBLE_DEVICES="0,1"), nproc=4)
    assert "2 devices of 8, by ASCEND_RT_VISIBLE_DEVICES='0,1'" in finding.observed


def test_processes_of_launch_scripts() -> None:
    finding = fails("process-count", a2(NPROC_PER_NODE="16"), "NPROC_PER_NODE")
    assert "export NPROC_PER_NODE=8" in commands(finding)
    passes("process-count", a3(NPUS_PER_NODE="8"), "leaves 8 of 16 devices idle")
    skips("process-count", a2(NPROC_PER_NODE="gpu"))
    empty = a2(ASCEND_RT_VISIBLE_DEVICES="", NPROC_PER_NODE="8")
    assert "unset NPROC_PER_NODE" in commands(fails("process-count", empty))
    (finding,) = ask("process-count", a2(ASCEND_RT_VISIBLE_DEVICES=""), nproc=1)
    assert not remedy_of(finding).commands


def test_the_container_runtimes_variable_warns_outside_containers() -> None:
    facts = a2(ASCEND_VISIBLE_DEVICES="0-3")
    warns("container-variable", facts, "All devices stay visible")
    warns("container-variable", inside(facts), "/dev/davinci0-7")
    facts = a2(ASCEND_VISIBLE_DEVICES="Ascend910-0,Ascend910-1,2-7")
    passes("container-variable", inside(facts), "numbers are those of the host")


# --- shared memory and limits


def test_little_shared_memory() -> None:
    facts = having(a2(), "host", shm_size=64 << 20, shm_free=None)
    assert "remount" in commands(warns("shared-memory", facts, "64 MiB"))
    assert "--shm-size" in commands(warns("shared-memory", inside(facts)))
    assert "medium: Memory" in commands(warns("shared-memory", inside(facts, "kubernetes")))
    full = having(a2(), "host", shm_free=GIB // 2)
    warns("shared-memory", full, "nearly full", "64 GiB")
    half = having(a2(), "host", shm_size=2 * GIB, shm_free=GIB)
    warns("shared-memory", half, "2 GiB, 1 GiB free")
    cannot_tell("shared-memory", having(a2(), "host", shm_size=None), "the size of")


def test_limits() -> None:
    def limited(soft: int, hard: int, memory: int = -1) -> Snapshot:
        limits = (
            Limit(name="nofile", soft=soft, hard=hard),
            Limit(name="memlock", soft=memory, hard=memory),
        )
        return having(a2(), "host", limits=limits)

    finding = warns("resource-limits", limited(1024, 1 << 20), "nofile is limited to 1024")
    assert "ulimit -n 32768" in commands(finding)
    finding = warns("resource-limits", inside(limited(1024, 4096)), "hard 4096")
    assert "--ulimit nofile=32768" in commands(finding)
    assert warns("resource-limits", limited(1024, 4096)).remedy is not None
    finding = warns("resource-limits", limited(65536, -1, 64 << 10), "soft 64 KiB")
    assert "limits.conf" in commands(finding)
    finding = warns("resource-limits", inside(limited(65536, -1, 64 << 10)))
    assert "--ulimit memlock=-1" in commands(finding)
    passes("resource-limits", limited(-1, -1))
    warns("resource-limits", limited(10, -1), "hard unlimited")
    cannot_tell("resource-limits", having(a2(), "host", limits=()), "nofile and memlock")
