from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.device_nodes import device_nodes
from ascend_doctor.collect.driver import (
    driver,
    parse_docker_daemon,
    parse_install_info,
    parse_modules,
    parse_mounts,
)
from ascend_doctor.collect.pci import pci_functions
from ascend_doctor.facts import Driver
from ascend_doctor.machine.live import FileStatus, LiveMachine
from tests import samples
from tests.present import present

from .replayed import replay

CHAR = {"kind": "char", "mode": "0660", "uid": 1000, "gid": 1000}


def sample(name: str) -> str:
    return samples.read(name)


def test_a_machine_without_a_driver_has_no_trace_of_one(tmp_path: Path) -> None:
    facts = driver(replay(tmp_path))
    assert not facts.present
    assert facts == Driver(libraries=facts.libraries)
    assert all(library.path is None for library in facts.libraries)


def test_versions_come_from_the_files_of_the_installed_path(tmp_path: Path) -> None:
    info = sample("driver/ascend_install.info.txt").replace("/usr/local/Ascend", "/opt/hdk")
    files = {
        "/etc/ascend_install.info": info,
        "/opt/hdk/driver/version.info": sample("driver/driver-version.info-23.0.7.txt"),
        "/opt/hdk/firmware/version.info": sample("driver/firmware-version.info-7.1.txt"),
    }
    facts = driver(replay(tmp_path, files=files))
    assert (facts.path, facts.version) == ("/opt/hdk/driver", "23.0.7")
    assert facts.compatible_firmware == "[7.0.0,7.1.99]"
    assert facts.firmware_version == "7.1.0.11.220"
    assert facts.install_info is not None
    assert facts.install_info.driver_status == "complete"


def test_docker_made_a_folder_of_the_install_info(tmp_path: Path) -> None:
    facts = driver(replay(tmp_path, folders={"/etc/ascend_install.info": []}))
    assert facts.install_info is not None
    assert facts.install_info.is_directory


def test_device_nodes_with_owners_and_access(tmp_path: Path) -> None:
    machine = replay(
        tmp_path,
        nodes={
            "/dev/davinci10": CHAR,
            "/dev/davinci2": {**CHAR, "readable": False, "writable": False},
            "/dev/davinci3": {"kind": "directory"},
            "/dev/vdavinci100": CHAR,
            "/dev/davinci_manager": CHAR,
            "/dev/davincinet": CHAR,
            "/dev/null": CHAR,
            "/dev/uburma/udma1": CHAR,
            "/dev/uburma": {"kind": "directory"},
        },
        values={"user-name:1000": "HwHiAiUser", "group-name:1000": None},
    )
    nodes = device_nodes(machine)
    assert [node.path for node in nodes] == [
        "/dev/davinci2",
        "/dev/davinci3",
        "/dev/davinci10",
        "/dev/vdavinci100",
        "/dev/davinci_manager",
        "/dev/uburma/udma1",
    ]
    first, folder, *_ = nodes
    assert (first.owner, first.group, first.gid, first.mode) == ("HwHiAiUser", None, 1000, "0660")
    assert (first.readable, first.writable) == (False, False)
    assert not folder.is_device


def test_a_dangling_node_is_no_device(tmp_path: Path) -> None:
    machine = replay(tmp_path, folders={"/dev": ["davinci0"]})
    (node,) = device_nodes(machine)
    assert (node.number, node.is_device, node.readable) == (0, False, None)


class ThisMachine(LiveMachine):
    """/dev/null replaces a device."""

    def names(self, path: str) -> tuple[str, ...]:
        return ("davinci0",) if path == "/dev" else super().names(path)

    def status(self, path: str) -> FileStatus:
        return super().status("/dev/null" if path == "/dev/davinci0" else path)


def test_a_live_device_file_has_owner_and_access() -> None:
    (node,) = device_nodes(ThisMachine())
    assert (node.uid, node.owner, node.mode) == (0, "root", "0666")
    assert (node.is_device, node.readable, node.writable) == (True, True, True)


def pci(address: str, device: str, kind: str = "0x120000") -> dict[str, str]:
    folder = f"/sys/bus/pci/devices/{address}"
    return {
        f"{folder}/vendor": "0x19e5\n",
        f"{folder}/class": f"{kind}\n",
        f"{folder}/device": f"{device}\n",
        f"{folder}/subsystem_device": "0x0110\n",
    }


def test_pci_functions_are_accelerators_of_this_vendor(tmp_path: Path) -> None:
    other = "/sys/bus/pci/devices/0000:00:00.0/vendor"
    files = {
        **pci("0000:9d:00.0", "0xd803"),
        **pci("0000:7d:00.0", "0xa222", "0x020000"),
        other: "0x8086\n",
    }
    (pci_function,) = pci_functions(replay(tmp_path, files=files)) or ()
    assert (pci_function.address, pci_function.device) == ("0000:9d:00.0", "0xd803")
    assert pci_function.subsystem_device == "0x0110"


def test_modules_are_those_of_the_driver() -> None:
    text = "drv_pcie_host 1 0 - Live 0x0\nnvme 2 0 - Live\nasdrv_svm 1 0 a, Unloading 0x0 (OE)\n\n"
    assert parse_modules(text) == ("asdrv_svm Unloading", "drv_pcie_host")
    assert parse_modules("") == ()
    assert parse_modules(None) is None


def test_libraries_are_found_as_the_loader_does(tmp_path: Path) -> None:
    common = "/usr/local/Ascend/driver/lib64/common"
    machine = replay(
        tmp_path,
        files={
            "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
            "/etc/ld.so.conf.d/ascend_driver_so.conf": f"{common}\n",
            f"{common}/libc_sec.so": "",
            "/opt/stub/libascend_hal.so": "",
        },
        env={"LD_LIBRARY_PATH": "/opt/stub"},
    )
    libraries = {library.name: (library.path, library.by) for library in driver(machine).libraries}
    assert libraries["libc_sec.so"] == (f"{common}/libc_sec.so", "loader configuration")
    assert libraries["libascend_hal.so"] == ("/opt/stub/libascend_hal.so", "LD_LIBRARY_PATH")
    assert libraries["libdcmi.so"] == (None, "")


def test_docker_runtime_of_a_host(tmp_path: Path) -> None:
    files = {
        "/etc/docker/daemon.json": sample("docker/daemon.json-ascend-runtime.txt"),
        "/etc/ascend-docker-runtime.d/base.list": sample("docker/base.list-a2-a3.txt"),
    }
    docker = present(driver(replay(tmp_path, files=files)).docker)
    assert docker.default
    assert docker.path == "/usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime"
    assert "/usr/local/dcmi" in docker.mounts


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"runtimes": []}', '{"runtimes": {"ascend": 1}}', "[" * 100000]
)
def test_a_daemon_file_of_another_form_has_no_runtime(text: str) -> None:
    assert parse_docker_daemon(text).path is None


@given(st.one_of(st.text(), st.lists(st.sampled_from([*"=:\n", "a", "9" * 5000])).map("".join)))
def test_no_parser_raises(text: str) -> None:
    for parse in (
        parse_docker_daemon,
        parse_install_info,
        parse_modules,
        parse_mounts,
    ):
        parse(text)
