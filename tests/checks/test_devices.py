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
from tests.checks.levels import cannot_tell, fails, passes, skips, warns
from tests.checks.machine import having, run, without
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
    fails("driver-installed", facts, "8 NPUs on the PCI bus")
    skips("driver-loaded", facts)
    facts = having(facts, "driver", pci=None)
    fails("driver-installed", facts, "no driver/version.info")
    facts = having(facts, "driver", path="/usr/local/Ascend/driver")
    cannot_tell("driver-installed", facts, "cannot be read")


def test_a_driver_that_is_not_loaded() -> None:
    facts = having(a2(), "driver", nodes=(), modules=())
    finding = fails("driver-loaded", facts, "none of the driver", "bus: 8")
    assert "dmesg" in commands(finding)
    facts = having(facts, "driver", modules=None, pci=None)
    fails("driver-loaded", facts, "modules: not known", "bus: not known")
    virtual = having(a2(), "driver", nodes=(node("/dev/vdavinci100", 100, kind="vdevice"),))
    passes("driver-loaded", virtual)


def test_the_driver_of_a_container_is_the_hosts() -> None:
    for identity in ("driver-installed", "driver-loaded", "driver-complete"):
        skips(identity, inside(a2()))


def test_an_installation_that_was_not_finished() -> None:
    facts = having(a2(), "driver", install_info=InstallInfo(driver_status="upgrading"))
    warns("driver-complete", facts, "'upgrading'")
    message = "[WARNING]The driver package may not be completely installed."
    facts = having(having(a2(), "driver", install_info=None), "npus", warnings=(message,))
    warns("driver-complete", facts, "npu-smi:")
    facts = having(facts, "driver", install_info=InstallInfo())
    warns("driver-complete", facts, "npu-smi:")
    facts = having(facts, "npus", warnings=())
    warns("driver-complete", facts, "no Driver_Install_Status")
    folder = having(facts, "driver", install_info=InstallInfo(is_directory=True))
    warns("driver-complete", folder, "is a folder")
    closed = having(facts, "driver", install_info=InstallInfo(closed=True))
    cannot_tell("driver-complete", closed, "may not be read")
    facts = having(a2(), "driver", install_info=None)
    warns("driver-complete", without(facts, "npus"), "there is no")


def test_device_files_without_a_module() -> None:
    warns("driver-loaded", having(a2(), "driver", modules=()), "no kernel module")
    passes("driver-loaded", having(a2(), "driver", modules=None))


@pytest.mark.parametrize("word", ["UNKNOWN", "incompatible", None])
def test_a_board_that_does_not_say_whether_it_fits(word: str | None) -> None:
    odd = (*boards()[:3], NpuBoard(npu_id=3, compatibility=word), *boards()[4:])
    cannot_tell("driver-firmware", having(a2(), "npus", boards=odd), "NPU 3")


def test_driver_and_firmware() -> None:
    facts = having(a2(), "driver", firmware_version="6.4.0.4.220")
    warns("driver-firmware", facts, "6.4.0.4.220", "[7.0.0,7.9.99]")
    facts = having(a2(), "driver", version="23.0.7")
    warns("driver-firmware", facts, "firmware does not name this driver")
    nok = (*boards()[:3], NpuBoard(npu_id=3, compatibility="NOK"), *boards()[4:])
    facts = having(facts, "npus", boards=nok)
    fails("driver-firmware", facts, "NOK on NPU 3")
    facts = having(a2(), "driver", compatible_firmware="nonsense")
    cannot_tell("driver-firmware", facts, "nonsense")
    bare = having(a2(), "driver", firmware_version=None, compatible_drivers=None)
    passes("driver-firmware", bare)
    cannot_tell("driver-firmware", having(bare, "npus", boards=()), "could not be told")


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
    assert "sudo reboot" in commands(warns("driver-running", facts, "restarted"))
    finding = warns("driver-running", inside(facts), "container")
    assert "Mount" in commands(finding)
    facts = having(facts, "driver", version=None)
    cannot_tell("driver-running", facts, "on disk")


# --- device files


def test_a_card_that_is_lost() -> None:
    facts = having(a2(), "driver", nodes=nodes(7))
    fails("device-files", facts, "8 devices on the PCI bus, 7 device files")
    lost = tuple(node for node in nodes(8) if node.number != 4)
    facts = having(having(a2(), "driver", nodes=lost, pci=None), "npus", devices=())
    finding = fails("device-files", facts, "no /dev/davinci4", "there: 0-3,5-7")
    assert "npu-smi info -l" in commands(finding)


def test_a_number_of_cards_that_no_server_has() -> None:
    seven = tuple(npu(index) for index in range(7))
    facts = having(having(a2(), "driver", nodes=nodes(7), pci=None), "npus", devices=seven)
    fails("device-files", facts, "1, 2, 4, 8, 16")
    facts = having(facts, "host", virtual_machine="KVM")
    passes("device-files", facts)


@pytest.mark.parametrize("lost", [{7}, {4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}])
def test_hccn_conf_knows_devices_that_are_gone(lost: set[int]) -> None:
    left = tuple(node for node in nodes(8) if node.number not in lost)
    table = tuple(npu(index) for index in range(8) if index not in lost)
    pci = tuple(PciFunction(address=str(index), device="0xd802") for index in range(len(table)))
    facts = having(having(a2(), "driver", nodes=left, pci=pci), "npus", devices=table)
    conf = {f"address_{index}": "192.0.2.1" for index in range(8)}
    lacking = having(facts, "hccn", conf=conf)
    fails("device-files", lacking, "addresses of devices 0-7")
    passes("device-files", inside(lacking))
    passes("device-files", having(lacking, "host", virtual_machine="KVM"))
    small = having(facts, "hccn", conf={f"address_{node.number}": "192.0.2.1" for node in left})
    levels = {run("device-files", small)[0].level}
    assert levels == ({Level.OK} if len(table) in {1, 2, 4} else {Level.ERROR})


def test_a_card_that_left_the_bus_and_not_dev() -> None:
    pci = tuple(PciFunction(address=str(index), device="0xd802") for index in range(7))
    facts = having(a2(), "driver", pci=pci)
    fails("device-files", facts, "7 devices on the PCI bus, 8 device files")
    passes("device-files", having(facts, "driver", pci=()))


def test_cards_without_links_can_be_any_number() -> None:
    five = tuple(npu(index) for index in range(5))
    facts = having(having(a2(), "driver", nodes=nodes(5), pci=None), "npus", devices=five)
    facts = having(facts, "hccn", conf={})
    fails("device-files", having(facts, "npus", topology=mesh(5, "HCCS")), "5 devices")
    cards = having(facts, "npus", topology=mesh(5, "PHB"))
    passes("device-files", cards)


def test_a_file_whose_card_npu_smi_does_not_show() -> None:
    seven = tuple(npu(index) for index in range(7))
    facts = inside(having(a2(), "npus", devices=seven))
    fails("device-files", facts, "npu-smi: 0-6; /dev: 0-7", "Device 7")


def test_npu_smi_and_dev_differ() -> None:
    facts = inside(having(a2(), "driver", nodes=nodes(4)))
    warns("device-files", facts, "npu-smi: 0-7; /dev: 0-3", "Device 4-7")
    cut = having(facts, "npus", complete=False)
    passes("device-files", cut)
    none = having(facts, "npus", devices=(npu(0, device=None),))
    cannot_tell("device-files", none, "device number")


def test_managers_are_missing() -> None:
    lacking = tuple(node for node in nodes(8) if node.path != "/dev/devmm_svm")
    facts = having(a2(), "driver", nodes=lacking)
    fails("device-managers", facts, "/dev/devmm_svm")
    newest = having(facts, "npus", devices=(npu(0, name="Ascend950PR"),))
    passes("device-managers", newest)
    skips("device-managers", inside(facts))
    skips("device-managers", having(a2(), "driver", nodes=()))


def close_devices(facts: Snapshot, **fields: object) -> Snapshot:
    changed = tuple(
        msgspec.structs.replace(node, readable=False, writable=False, **fields) for node in nodes(8)
    )
    return having(facts, "driver", nodes=changed)


def test_a_user_outside_the_group() -> None:
    facts = having(close_devices(a2()), "host", gids=(1001,))
    finding = fails("device-access", facts, "HwHiAiUser:HwHiAiUser, mode 0660", "and 8 more")
    assert 'sudo usermod -aG HwHiAiUser "$USER"' in commands(finding)
    assert finding.devices == tuple(range(8))
    nameless = having(close_devices(a2(), group=None, owner=None), "host", gids=(1001,))
    finding = fails("device-access", nameless, "belongs to 1000:1000")
    assert 'usermod -aG 1000 "$USER"' in commands(finding)


def test_a_user_outside_the_group_in_a_container() -> None:
    facts = having(close_devices(a2()), "host", gids=(1001,))
    finding = fails("device-access", inside(facts))
    assert "--group-add 1000" in commands(finding)
    finding = fails("device-access", inside(facts, "kubernetes"))
    assert "supplementalGroups: [1000]" in commands(finding)


def test_access_that_a_group_does_not_help() -> None:
    member = fails("device-access", close_devices(a2()))
    assert "log in again" in commands(member)
    root = fails("device-access", having(close_devices(a2()), "host", uid=0))
    assert "--cap-add=DAC_OVERRIDE" in commands(root)
    shut = fails("device-access", close_devices(a2(), mode="0600"))
    assert "--install-for-all" in commands(shut)


def test_optional_files_need_no_access() -> None:
    extra = node("/dev/dvpp_cmdlist", readable=False, writable=False)
    facts = having(a2(), "driver", nodes=(*nodes(8), extra))
    passes("device-access", facts)


def test_a_file_that_is_no_device() -> None:
    facts = having(a2(), "driver", nodes=(node("/dev/davinci0", 0, is_device=False),))
    assert "restart" in commands(fails("device-access", facts, "not a device file"))
    finding = fails("device-access", inside(facts))
    assert "--device" in commands(finding)


# --- containers


def bare(facts: Snapshot, **fields: object) -> Snapshot:
    return having(facts, "driver", nodes=(), **fields)


def test_a_container_without_devices() -> None:
    facts = inside(bare(a2()))
    finding = fails("container-devices", facts, "given no NPU", "the host has 8 devices")
    text = commands(finding)
    assert "$(printf -- '--device=%s ' /dev/davinci[0-9]*)" in text
    for path in MANAGERS:
        assert f"--device={path}" in text
    for path in ("driver/lib64", "driver/version.info", "dcmi", "npu-smi", "hccn.conf"):
        assert f"{path}:/" in text
    assert "--shm-size=64g" in text


def test_a_container_of_another_family() -> None:
    facts = inside(having(bare(a2(), pci=None), "npus", devices=(npu(0, name="Ascend950PR"),)))
    text = commands(fails("container-devices", facts))
    assert "devmm_svm" not in text
    assert "/usr/local/Ascend/driver/topo" in text


def test_a_pod_without_devices() -> None:
    finding = fails("container-devices", inside(bare(a3()), "kubernetes"))
    assert "huawei.com/Ascend910: 16" in commands(finding)
    assert "hostPath: {path: /etc/hccn.conf}" in commands(finding)
    (finding,) = ask("container-devices", inside(bare(a2()), "kubernetes"), nproc=4)
    assert "huawei.com/Ascend910: 4" in commands(finding)
    newest = having(bare(a2()), "npus", devices=(npu(0, name="Ascend950PR"),))
    finding = fails("container-devices", inside(newest, "kubernetes"))
    assert "huawei.com/npu: 1" in commands(finding)


def test_ascend_docker_runtime_that_was_asked_for_nothing() -> None:
    facts = inside(bare(a2(ASCEND_VISIBLE_DEVICES="")), ascend_docker_runtime=True)
    finding = fails("container-devices", facts, "empty is nothing", "DEVICES=''")
    text = commands(finding)
    assert "--runtime=ascend -e ASCEND_VISIBLE_DEVICES=0-7" in text
    assert "driver/version.info" in text
    assert "driver/lib64" not in text
    facts = inside(bare(a2(ASCEND_VISIBLE_DEVICES="0-3")))
    fails("container-devices", facts, "which was not used")


def test_a_container_without_managers_or_with_virtual_devices() -> None:
    facts = inside(having(a2(), "driver", nodes=nodes(2)[:2]))
    finding = fails("container-devices", facts, "/dev/davinci0-1", *MANAGERS)
    assert "--device=/dev/davinci0 --device=/dev/davinci1" in commands(finding)
    facts = inside(bare(a2()))
    virtual = having(facts, "driver", nodes=(node("/dev/vdavinci100", 100, kind="vdevice"),))
    passes("container-devices", virtual)


def test_an_image_with_cann_and_nothing_of_the_host() -> None:
    from tests.checks.machine import healthy

    facts = inside(msgspec.structs.replace(healthy(), driver=Driver(), npus=None))
    warns("container-devices", facts, "given no NPU")
    plain = inside(having(facts, "cann", installs=()))
    skips("container-devices", plain)
    skips("container-devices", a2())


def test_a_container_without_the_drivers_libraries_is_an_error() -> None:
    lacking = tuple(Library(name=library) for library in LIBRARIES)
    facts = inside(having(a2(), "driver", libraries=lacking, path=None))
    finding = fails("container-driver", facts, "not in the container", *LIBRARIES)
    assert "-v /usr/local/Ascend/driver/lib64" in commands(finding)
    there = having(facts, "driver", path="/opt/my driver")
    finding = fails("container-driver", there, "does not find")
    assert "export LD_LIBRARY_PATH='/opt/my driver/lib64:" in commands(finding)
    runtime = inside(facts, ascend_docker_runtime=True)
    fails("container-driver", runtime, "NODRV")
    tools = having(a2(), "driver", libraries=(Library(name="libdcmi.so"),))
    passes("container-driver", inside(tools))


def test_files_of_the_host_in_a_container() -> None:
    facts = having(a2(), "driver", version=None, install_info=None)
    facts = inside(having(having(facts, "npus", tool=""), "hccn", conf=None))
    names = ("npu-smi", "version.info", "ascend_install.info", "hccn.conf")
    warns("container-files", facts, *names)
    runtime = inside(facts, ascend_docker_runtime=True)
    warns("container-files", runtime, "Ascend Docker Runtime was used")
    folder = having(a2(), "driver", install_info=InstallInfo(is_directory=True))
    finding = warns("container-files", inside(folder), "is a folder")
    assert "rmdir" in commands(finding)
    skips("container-files", inside(bare(a2())))


def test_a_privileged_container() -> None:
    passes("container-privileges", inside(a2(), privileged=True), "shares its NPUs")


def test_ascend_docker_runtime() -> None:
    host = having(a2(), "driver", docker=DockerRuntime(path="/x/ascend-docker-runtime"))
    passes("docker-runtime", host, "with --runtime=ascend")
    always = having(a2(), "driver", docker=DockerRuntime(path="/x/y", default=True))
    passes("docker-runtime", always, "by default")
    unknown = having(a2(), "driver", docker=DockerRuntime(mounts=("/usr/local/dcmi",)))
    warns("docker-runtime", unknown, "does not know it")
    plain = having(a2(), "driver", docker=DockerRuntime())
    assert not run("docker-runtime", plain)[0].observed
    skips("docker-runtime", a2())
    passes("docker-runtime", inside(a2(ASCEND_RUNTIME_OPTIONS="NODRV")), "NODRV")
