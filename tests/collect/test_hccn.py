from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect import hccn_answers
from ascend_doctor.collect.hccn import hccn
from ascend_doctor.facts import DeviceNode, Driver, Hccn, PciFunction
from ascend_doctor.machine.live import Completed
from ascend_doctor.machine.recorded import ReplayMachine
from tests import samples

from .replayed import replay


def sample(name: str) -> str:
    return samples.read(f"hccn_tool/{name}")


def with_devices(*numbers: int, pci: str = "0xd802") -> Driver:
    return Driver(
        nodes=tuple(
            DeviceNode(path=f"/dev/davinci{number}", kind="device", number=number)
            for number in numbers
        ),
        pci=(PciFunction(address="0000:01:00.0", device=pci),),
    )


HEALTHY = {
    "-ip": "ip-a2.txt",
    "-link": "link-up-a2.txt",
    "-net_health": "net_health-success-a2.txt",
    "-netdetect": "netdetect-a2.txt",
    "-gateway": "gateway-a2.txt",
    "-tls": "tls-switch-a2.txt",
    "-link_stat": "link-stat-a2.txt",
}


def answers(device: int, names: dict[str, str]) -> dict[str, str]:
    return {f"hccn_tool -i {device} {ask} -g": sample(name) for ask, name in names.items()}


class Counting(ReplayMachine):
    asked: tuple[str, ...] = ()

    def run(self, argv: list[str], **options: object) -> Completed:
        self.asked += (str(options["name"]),)
        return super().run(argv, **options)  # type: ignore[arg-type]


def test_without_tool_and_file_there_is_nothing(tmp_path: Path) -> None:
    assert hccn(replay(tmp_path), with_devices(0)) == Hccn()


def test_without_devices_the_file_is_read_and_nothing_is_asked(tmp_path: Path) -> None:
    files = {"/etc/hccn.conf": sample("hccn.conf-two-of-eight.txt")}
    replay(tmp_path, files=files)
    machine = Counting(tmp_path)
    facts = hccn(machine, Driver())
    assert facts.conf is not None
    assert facts.conf["address_7"] == "192.0.2.27"
    assert "address_3" not in facts.conf
    assert machine.asked == ()


def test_a_healthy_device(tmp_path: Path) -> None:
    machine = replay(
        tmp_path,
        commands=answers(4, HEALTHY),
        files={"/usr/local/Ascend/driver/tools/hccn_tool": ""},
    )
    facts = hccn(machine, with_devices(4))
    assert facts.tool == "/usr/local/Ascend/driver/tools/hccn_tool"
    (device,) = facts.devices
    assert (device.device, device.address, device.netmask) == (4, "192.0.2.10", "255.255.255.0")
    assert (device.link, device.health, device.detect) == ("UP", "Success", "192.0.2.1")
    assert (device.gateway, device.tls, device.link_ups) == ("192.0.2.1", False, 2)
    assert device.link_changes[0] == "UP"
    assert (device.optical, device.error) == ({}, None)


def test_what_is_not_set_is_empty_and_no_fault(tmp_path: Path) -> None:
    names = {
        **HEALTHY,
        "-ip": "ip-not-configured.txt",
        "-netdetect": "netdetect-variant.txt",
        "-gateway": "gateway-not-configured.txt",
        "-tls": "err-unsupported-product.txt",
    }
    (device,) = hccn(replay(tmp_path, commands=answers(0, names)), with_devices(0)).devices
    assert (device.address, device.netmask, device.detect, device.gateway) == ("", "", "", "")
    assert device.tls is None
    assert device.error is None


def test_a_link_that_is_down_is_looked_into(tmp_path: Path) -> None:
    names = {
        **HEALTHY,
        "-link": "link-down-a2.txt",
        "-link_stat": "link-stat-910-down.txt",
        "-optical": "optical-910-fault.txt",
    }
    (device,) = hccn(replay(tmp_path, commands=answers(0, names)), with_devices(0)).devices
    assert (device.link, device.link_changes[0]) == ("DOWN", "DOWN")
    assert device.optical["Rx Los Flag"] == "0xff"
    assert "vendor serial number" not in device.optical


def test_without_permission_only_one_question_is_asked(tmp_path: Path) -> None:
    replay(tmp_path, commands={"hccn_tool -i 0 -ip -g": {"stdout": sample("err-permission.txt")}})
    machine = Counting(tmp_path)
    facts = hccn(machine, with_devices(0, 1, 2))
    assert machine.asked == ("hccn_tool -i 0 -ip -g",)
    assert facts.error is not None
    assert facts.error.kind == "permission"


def test_a_hang_ends_all_and_keeps_what_was_told(tmp_path: Path) -> None:
    commands: dict[str, object] = {**answers(0, HEALTHY), **answers(1, HEALTHY)}
    commands["hccn_tool -i 1 -link -g"] = {"timed_out": True}
    replay(tmp_path, commands=commands)  # type: ignore[arg-type]
    machine = Counting(tmp_path)
    facts = hccn(machine, with_devices(0, 1, 2))
    assert machine.asked[-1] == "hccn_tool -i 1 -link -g"
    assert [(device.device, device.address, device.link) for device in facts.devices] == [
        (0, "192.0.2.10", "UP"),
        (1, "192.0.2.10", None),
    ]
    assert facts.error is not None
    assert facts.error.kind == "timeout"
    assert facts.devices[1].error == facts.error


def test_a_fault_of_one_device_does_not_stop_the_next(tmp_path: Path) -> None:
    busy = answers(0, dict.fromkeys(HEALTHY, "err-busy.txt"))
    machine = replay(tmp_path, commands={**busy, **answers(1, HEALTHY)})
    facts = hccn(machine, with_devices(0, 1))
    first, second = facts.devices
    assert first.error is not None
    assert first.error.kind == "busy"
    assert second.error is None
    assert facts.error is None


def test_a_question_that_the_product_does_not_know_is_kept(tmp_path: Path) -> None:
    commands = {
        **answers(0, HEALTHY),
        "hccn_tool -i 0 -tls -g": sample("err-unsupported-product.txt"),
    }
    (device,) = hccn(replay(tmp_path, commands=commands), with_devices(0)).devices
    assert device.unsupported == ("-tls",)
    assert (device.tls, device.link, device.error) == (None, "UP", None)


def test_950_is_asked_in_its_own_order_by_index(tmp_path: Path) -> None:
    machine = replay(
        tmp_path,
        commands={
            "hccn_tool -g -dev_info -i 0": sample("dev_info-950-doc.txt"),
            "hccn_tool -g -dev_info -i 1": sample("dev_info-950-variant.txt"),
            "hccn_tool -g -tls -i 0": sample("tls-950-doc.txt"),
            "hccn_tool -g -tls -i 1": sample("tls-950-doc.txt"),
        },
    )
    facts = hccn(machine, with_devices(6, 7, pci="0xd806"))
    assert [device.device for device in facts.devices] == [0, 1]
    assert [port.link for port in facts.devices[1].ports] == ["UP", "DOWN", "UP", "DOWN"]
    assert facts.devices[0].tls is False
    assert facts.error is None


def test_a_host_with_ub_nodes_is_950_without_pci(tmp_path: Path) -> None:
    nodes = (
        DeviceNode(path="/dev/davinci0", kind="device", number=0),
        DeviceNode(path="/dev/uburma/udma1", kind="manager"),
    )
    machine = replay(
        tmp_path, commands={"hccn_tool -g -dev_info -i 0": sample("dev_info-950-doc.txt")}
    )
    (device,) = hccn(machine, Driver(nodes=nodes)).devices
    assert len(device.ports) == 3


PIECES = [
    "link status: ",
    "UP",
    "|",
    "+--+\n",
    "UDie ID",
    "Port ID",
    "9" * 5000,
    ".",
    "tls switch[",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from([*PIECES, "\n", ":", "0]"])).map("".join)))
def test_no_parser_raises(text: str) -> None:
    parsers = [name for name in vars(hccn_answers) if name.startswith("parse_")]
    assert len(parsers) >= 11
    for name in parsers:
        getattr(hccn_answers, name)(text)
