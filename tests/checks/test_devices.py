import msgspec
import pytest

from ascend_doctor.facts import (
    DockerRuntime,
    Driver,
    InstallInfo,
    Library,
    NpuBoard,
    PciFunction,
    Snapshot,
)
from ascend_doctor.findings import Level
from tests.checks.machine import having, only, run, without
from tests.checks.server import (
    LIBRARIES,
    MANAGERS,
    a2,
    a3,
    ask,
    boards,
    commands,
    inside,
    mesh,
    node,
    nodes,
    npu,
)

# --- driver


def test_a_card_without_a_driver() -> None:
    facts = having(a2(), "driver", version=None, path=None, nodes=())
    only("driver-installed", facts, Level.ERROR, "8 NPUs on the PCI bus")
    assert run("driver-loaded", facts)[0].level is Level.SKIPPED
    facts = having(facts, "driver", pci=None)
    only("driver-installed", facts, Level.ERROR, "no driver/version.info")
    facts = having(facts, "driver", path="/usr/local/Ascend/driver")
    only("driver-installed", facts, Level.UNKNOWN, "cannot be read")


def test_a_driver_that_is_not_loaded() -> None:
    facts = having(a2(), "driver", nodes=(), modules=())
    finding = only("driver-loaded", facts, Level.ERROR, "none of the driver", "bus: 8")
    assert "dmesg" in commands(finding)
    facts = having(facts, "driver", modules=None, pci=None)
    only("driver-loaded", facts, Level.ERROR, "modules: not known", "bus: not known")
    virtual = having(a2(), "driver", nodes=(node("/dev/vdavinci100", 100, kind="vdevice"),))
    assert run("driver-loaded", virtual)[0].level is Level.OK


def test_the_driver_of_a_container_is_the_hosts() -> None:
    for identity in ("driver-installed", "driver-loaded", "driver-complete"):
        assert run(identity, inside(a2()))[0].level is Level.SKIPPED


def test_an_installation_that_was_not_finished() -> None:
    facts = having(a2(), "driver", install_info=InstallInfo(driver_status="upgrading"))
    only("driver-complete", facts, Level.WARNING, "'upgrading'")
    message = "[WARNING]The driver package may not be completely installed."
    facts = having(having(a2(), "driver", install_info=None), "npus", warnings=(message,))
    only("driver-complete", facts, Level.WARNING, "npu-smi:")
    facts = having(facts, "driver", install_info=InstallInfo())
    only("driver-complete", facts, Level.WARNING, "npu-smi:")
    facts = having(facts, "npus", warnings=())
    only("driver-complete", facts, Level.WARNING, "no Driver_Install_Status")
    folder = having(facts, "driver", install_info=InstallInfo(is_directory=True))
    only("driver-complete", folder, Level.WARNING, "is a folder")
    closed = having(facts, "driver", install_info=InstallInfo(closed=True))
    only("driver-complete", closed, Level.UNKNOWN, "may not be read")
    facts = having(a2(), "driver", install_info=None)
    only("driver-complete", without(facts, "npus"), Level.WARNING, "there is no")


def test_device_files_without_a_module() -> None:
    only("driver-loaded", having(a2(), "driver", modules=()), Level.WARNING, "no kernel module")
    assert run("driver-loaded", having(a2(), "driver", modules=None))[0].level is Level.OK


@pytest.mark.parametrize("word", ["UNKNOWN", "incompatible", None])
def test_a_board_that_does_not_say_whether_it_fits(word: str | None) -> None:
    odd = (*boards()[:3], NpuBoard(npu_id=3, compatibility=word), *boards()[4:])
    only("driver-firmware", having(a2(), "npus", boards=odd), Level.UNKNOWN, "NPU 3")


def test_firmware_that_the_boards_tell() -> None:
    facts = having(a2(), "driver", firmware_version=None, compatible_drivers=None)
    old = having(facts, "npus", boards=boards(firmware_version="6.3.0.1.241"))
    only("driver-firmware", old, Level.WARNING, "6.3.0.1.241", "[7.0.0,7.9.99]")


def test_driver_and_firmware() -> None:
    facts = having(a2(), "driver", firmware_version="6.4.0.4.220")
    only("driver-firmware", facts, Level.WARNING, "6.4.0.4.220", "[7.0.0,7.9.99]")
    facts = having(a2(), "driver", version="23.0.7")
    only("driver-firmware", facts, Level.WARNING, "firmware does not name this driver")
    nok = (*boards()[:3], NpuBoard(npu_id=3, compatibility="NOK"), *boards()[4:])
    facts = having(facts, "npus", boards=nok)
    only("driver-firmware", facts, Level.ERROR, "NOK on NPU 3")
    facts = having(a2(), "driver", compatible_firmware="nonsense")
    only("driver-firmware", facts, Level.UNKNOWN, "nonsense")
    bare = having(a2(), "driver", firmware_version=None, compatible_drivers=None)
    assert run("driver-firmware", bare)[0].level is Level.OK
    only("driver-firmware", having(bare, "npus", boards=()), Level.UNKNOWN, "could not be told")


@pytest.mark.parametrize(
    ("running", "on_disk", "level"),
    [
        ("25.2.0", "25.2.0", Level.OK),
        ("24.1.rc1.b030", "24.1.rc1", Level.OK),
        ("25.2", "25.2.0", Level.OK),
        ("25.5.1", "25.2.0", Level.WARNING),
        ("strange", "25.2.0", Level.WARNING),
    ],
)
def test_the_driver_that_runs(running: str, on_disk: str, level: Level) -> None:
    facts = having(having(a2(), "driver", version=on_disk), "npus", driver_version=running)
    assert run("driver-running", facts)[0].level is level


def test_the_driver_that_runs_in_a_container() -> None:
    facts = having(a2(), "npus", driver_version="25.5.1")
    assert "sudo reboot" in commands(only("driver-running", facts, Level.WARNING, "restarted"))
    finding = only("driver-running", inside(facts), Level.WARNING, "container")
    assert "Mount" in commands(finding)
    facts = having(facts, "driver", version=None)
    only("driver-running", facts, Level.UNKNOWN, "on disk")


# --- device files


def test_a_card_that_is_lost() -> None:
    facts = having(a2(), "driver", nodes=nodes(7))
    only("device-files", facts, Level.ERROR, "8 devices on the PCI bus, 7 device files")
    lost = tuple(node for node in nodes(8) if node.number != 4)
    facts = having(having(a2(), "driver", nodes=lost, pci=None), "npus", devices=())
    finding = only("device-files", facts, Level.ERROR, "no /dev/davinci4", "there: 0-3,5-7")
    assert "npu-smi info -l" in commands(finding)


def test_a_number_of_cards_that_no_server_has() -> None:
    seven = tuple(npu(index) for index in range(7))
    facts = having(having(a2(), "driver", nodes=nodes(7), pci=None), "npus", devices=seven)
    only("device-files", facts, Level.ERROR, "1, 2, 4, 8, 16")
    facts = having(facts, "host", virtual_machine="KVM")
    assert run("device-files", facts)[0].level is Level.OK


@pytest.mark.parametrize("lost", [{7}, {4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}])
def test_hccn_conf_knows_devices_that_are_gone(lost: set[int]) -> None:
    left = tuple(node for node in nodes(8) if node.number not in lost)
    table = tuple(npu(index) for index in range(8) if index not in lost)
    pci = tuple(PciFunction(address=str(index), device="0xd802") for index in range(len(table)))
    facts = having(having(a2(), "driver", nodes=left, pci=pci), "npus", devices=table)
    conf = {f"address_{index}": "192.0.2.1" for index in range(8)}
    lacking = having(facts, "hccn", conf=conf)
    only("device-files", lacking, Level.ERROR, "addresses of devices 0-7")
    assert run("device-files", inside(lacking))[0].level is Level.OK
    assert run("device-files", having(lacking, "host", virtual_machine="KVM"))[0].level is Level.OK
    small = having(facts, "hccn", conf={f"address_{node.number}": "192.0.2.1" for node in left})
    levels = {run("device-files", small)[0].level}
    assert levels == ({Level.OK} if len(table) in {1, 2, 4} else {Level.ERROR})


@pytest.mark.parametrize(("cards", "words"), [(1, "servers of this kind have 8, 16"), (4, "8-15")])
def test_cards_of_a3_that_are_gone(cards: int, words: str) -> None:
    left = 16 - 2 * cards
    pci = tuple(
        PciFunction(address=str(index), device="0xd803", subsystem_device="0x0110")
        for index in range(left // 2)
    )
    table = tuple(npu(device // 2, device=device, name="Ascend910") for device in range(left))
    facts = having(having(a3(), "driver", nodes=nodes(left), pci=pci), "npus", devices=table)
    conf = {f"address_{index}": "192.0.2.1" for index in range(16)}
    only("device-files", having(facts, "hccn", conf=conf), Level.ERROR, words)


def test_a_card_that_left_the_bus_and_not_dev() -> None:
    pci = tuple(PciFunction(address=str(index), device="0xd802") for index in range(7))
    facts = having(a2(), "driver", pci=pci)
    only("device-files", facts, Level.ERROR, "7 devices on the PCI bus, 8 device files")
    assert run("device-files", having(facts, "driver", pci=()))[0].level is Level.OK


def test_cards_without_links_can_be_any_number() -> None:
    five = tuple(npu(index) for index in range(5))
    facts = having(having(a2(), "driver", nodes=nodes(5), pci=None), "npus", devices=five)
    facts = having(facts, "hccn", conf={})
    only("device-files", having(facts, "npus", topology=mesh(5, "HCCS")), Level.ERROR, "5 devices")
    cards = having(facts, "npus", topology=mesh(5, "PHB"))
    assert run("device-files", cards)[0].level is Level.OK


def test_a_file_whose_card_npu_smi_does_not_show() -> None:
    seven = tuple(npu(index) for index in range(7))
    facts = inside(having(a2(), "npus", devices=seven))
    only("device-files", facts, Level.ERROR, "npu-smi: 0-6; /dev: 0-7", "Device 7")


def test_two_devices_behind_one_pci_function() -> None:
    facts = having(a3(), "driver", nodes=nodes(14))
    only("device-files", facts, Level.ERROR, "16 devices on the PCI bus, 14")
    functions = tuple(PciFunction(address=str(n), device="0xd803") for n in range(16))
    assert run("device-files", having(a3(), "driver", pci=functions))[0].level is Level.OK


def test_npu_smi_and_dev_differ() -> None:
    facts = inside(having(a2(), "driver", nodes=nodes(4)))
    only("device-files", facts, Level.WARNING, "npu-smi: 0-7; /dev: 0-3", "Device 4-7")
    cut = having(facts, "npus", complete=False)
    assert run("device-files", cut)[0].level is Level.OK
    none = having(facts, "npus", devices=(npu(0, device=None),))
    only("device-files", none, Level.UNKNOWN, "device number")


def test_managers_are_missing() -> None:
    lacking = tuple(node for node in nodes(8) if node.path != "/dev/devmm_svm")
    facts = having(a2(), "driver", nodes=lacking)
    only("device-managers", facts, Level.ERROR, "/dev/devmm_svm")
    newest = having(facts, "npus", devices=(npu(0, name="Ascend950PR"),))
    assert run("device-managers", newest)[0].level is Level.OK
    assert run("device-managers", inside(facts))[0].level is Level.SKIPPED
    assert run("device-managers", having(a2(), "driver", nodes=()))[0].level is Level.SKIPPED


def close_devices(facts: Snapshot, **fields: object) -> Snapshot:
    changed = tuple(
        msgspec.structs.replace(node, readable=False, writable=False, **fields) for node in nodes(8)
    )
    return having(facts, "driver", nodes=changed)


def test_a_user_outside_the_group() -> None:
    facts = having(close_devices(a2()), "host", gids=(1001,))
    finding = only(
        "device-access", facts, Level.ERROR, "HwHiAiUser:HwHiAiUser, mode 0660", "and 8 more"
    )
    assert 'sudo usermod -aG HwHiAiUser "$USER"' in commands(finding)
    assert finding.devices == tuple(range(8))
    nameless = having(close_devices(a2(), group=None, owner=None), "host", gids=(1001,))
    finding = only("device-access", nameless, Level.ERROR, "belongs to 1000:1000")
    assert 'usermod -aG 1000 "$USER"' in commands(finding)


def test_a_user_outside_the_group_in_a_container() -> None:
    facts = having(close_devices(a2()), "host", gids=(1001,))
    finding = only("device-access", inside(facts), Level.ERROR)
    assert "--group-add 1000" in commands(finding)
    finding = only("device-access", inside(facts, "kubernetes"), Level.ERROR)
    assert "supplementalGroups: [1000]" in commands(finding)


def test_access_that_a_group_does_not_help() -> None:
    member = only("device-access", close_devices(a2()), Level.ERROR)
    assert "log in again" in commands(member)
    root = only("device-access", having(close_devices(a2()), "host", uid=0), Level.ERROR)
    assert "--cap-add=DAC_OVERRIDE" in commands(root)
    shut = only("device-access", close_devices(a2(), mode="0600"), Level.ERROR)
    assert "--install-for-all" in commands(shut)


def test_optional_files_need_no_access() -> None:
    extra = node("/dev/dvpp_cmdlist", readable=False, writable=False)
    facts = having(a2(), "driver", nodes=(*nodes(8), extra))
    assert run("device-access", facts)[0].level is Level.OK


def test_a_file_that_is_no_device() -> None:
    facts = having(a2(), "driver", nodes=(node("/dev/davinci0", 0, is_device=False),))
    assert "restart" in commands(only("device-access", facts, Level.ERROR, "not a device file"))
    finding = only("device-access", inside(facts), Level.ERROR)
    assert "--device" in commands(finding)


# --- containers


def bare(facts: Snapshot, **fields: object) -> Snapshot:
    return having(facts, "driver", nodes=(), **fields)


def test_a_container_without_devices() -> None:
    facts = inside(bare(a2()))
    finding = only(
        "container-devices", facts, Level.ERROR, "given no NPU", "the host has 8 devices"
    )
    text = commands(finding)
    assert "$(printf -- '--device=%s ' /dev/davinci[0-9]*)" in text
    for path in MANAGERS:
        assert f"--device={path}" in text
    for path in ("driver/lib64", "driver/version.info", "dcmi", "npu-smi", "hccn.conf"):
        assert f"{path}:/" in text
    assert "--shm-size=64g" in text


def test_a_container_of_another_family() -> None:
    facts = inside(having(bare(a2(), pci=None), "npus", devices=(npu(0, name="Ascend950PR"),)))
    text = commands(only("container-devices", facts, Level.ERROR))
    assert "devmm_svm" not in text
    assert "/usr/local/Ascend/driver/topo" in text


def test_a_pod_without_devices() -> None:
    finding = only("container-devices", inside(bare(a3()), "kubernetes"), Level.ERROR)
    assert "huawei.com/Ascend910: 16" in commands(finding)
    assert "hostPath: {path: /etc/hccn.conf}" in commands(finding)
    (finding,) = ask("container-devices", inside(bare(a2()), "kubernetes"), nproc=4)
    assert "huawei.com/Ascend910: 4" in commands(finding)
    newest = having(bare(a2()), "npus", devices=(npu(0, name="Ascend950PR"),))
    finding = only("container-devices", inside(newest, "kubernetes"), Level.ERROR)
    assert "huawei.com/npu: 1" in commands(finding)


def test_ascend_docker_runtime_that_was_asked_for_nothing() -> None:
    facts = inside(bare(a2(ASCEND_VISIBLE_DEVICES="")), ascend_docker_runtime=True)
    finding = only("container-devices", facts, Level.ERROR, "empty is nothing", "DEVICES=''")
    text = commands(finding)
    assert "--runtime=ascend -e ASCEND_VISIBLE_DEVICES=0-7" in text
    assert "driver/version.info" in text
    assert "driver/lib64" not in text
    facts = inside(bare(a2(ASCEND_VISIBLE_DEVICES="0-3")))
    only("container-devices", facts, Level.ERROR, "which was not used")


def test_a_container_without_managers_or_with_virtual_devices() -> None:
    facts = inside(having(a2(), "driver", nodes=nodes(2)[:2]))
    finding = only("container-devices", facts, Level.ERROR, "/dev/davinci0-1", *MANAGERS)
    assert "--device=/dev/davinci0 --device=/dev/davinci1" in commands(finding)
    facts = inside(bare(a2()))
    virtual = having(facts, "driver", nodes=(node("/dev/vdavinci100", 100, kind="vdevice"),))
    assert run("container-devices", virtual)[0].level is Level.OK


def test_an_image_with_cann_and_nothing_of_the_host() -> None:
    from tests.checks.machine import healthy  # noqa: PLC0415 - the machine with CANN

    facts = inside(msgspec.structs.replace(healthy(), driver=Driver(), npus=None))
    only("container-devices", facts, Level.WARNING, "given no NPU")
    plain = inside(having(facts, "cann", installs=()))
    assert run("container-devices", plain)[0].level is Level.SKIPPED
    assert run("container-devices", a2())[0].level is Level.SKIPPED


def test_a_container_without_the_drivers_libraries_is_an_error() -> None:
    lacking = tuple(Library(name=library) for library in LIBRARIES)
    facts = inside(having(a2(), "driver", libraries=lacking, path=None))
    finding = only("container-driver", facts, Level.ERROR, "not in the container", *LIBRARIES)
    assert "-v /usr/local/Ascend/driver/lib64" in commands(finding)
    there = having(facts, "driver", path="/opt/my driver")
    finding = only("container-driver", there, Level.ERROR, "does not find")
    assert "export LD_LIBRARY_PATH='/opt/my driver/lib64:" in commands(finding)
    runtime = inside(facts, ascend_docker_runtime=True)
    only("container-driver", runtime, Level.ERROR, "NODRV")
    tools = having(a2(), "driver", libraries=(Library(name="libdcmi.so"),))
    assert run("container-driver", inside(tools))[0].level is Level.OK


def test_files_of_the_host_in_a_container() -> None:
    facts = having(a2(), "driver", version=None, install_info=None)
    facts = inside(having(having(facts, "npus", tool=""), "hccn", conf=None))
    names = ("npu-smi", "version.info", "ascend_install.info", "hccn.conf")
    only("container-files", facts, Level.WARNING, *names)
    runtime = inside(facts, ascend_docker_runtime=True)
    only("container-files", runtime, Level.WARNING, "Ascend Docker Runtime was used")
    folder = having(a2(), "driver", install_info=InstallInfo(is_directory=True))
    finding = only("container-files", inside(folder), Level.WARNING, "is a folder")
    assert "rmdir" in commands(finding)
    assert run("container-files", inside(bare(a2())))[0].level is Level.SKIPPED


def test_a_privileged_container() -> None:
    only("container-privileges", inside(a2(), privileged=True), Level.OK, "shares its NPUs")


def test_ascend_docker_runtime() -> None:
    host = having(a2(), "driver", docker=DockerRuntime(path="/x/ascend-docker-runtime"))
    only("docker-runtime", host, Level.OK, "with --runtime=ascend")
    always = having(a2(), "driver", docker=DockerRuntime(path="/x/y", default=True))
    only("docker-runtime", always, Level.OK, "by default")
    unknown = having(a2(), "driver", docker=DockerRuntime(mounts=("/usr/local/dcmi",)))
    only("docker-runtime", unknown, Level.WARNING, "does not know it")
    plain = having(a2(), "driver", docker=DockerRuntime())
    assert not run("docker-runtime", plain)[0].observed
    assert run("docker-runtime", a2())[0].level is Level.SKIPPED
    only("docker-runtime", inside(a2(ASCEND_RUNTIME_OPTIONS="NODRV")), Level.OK, "NODRV")
