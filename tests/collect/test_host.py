import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.environment import environment, parse_listening, parse_port_range
from ascend_doctor.collect.host import (
    host,
    parse_container_kind,
    parse_glibcxx,
    parse_hosts,
    parse_meminfo,
    parse_os_release,
    parse_privileged,
    parse_selected,
)
from ascend_doctor.collect.loader import find_library, library_path, loader_folders, places
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import ReplayMachine
from ascend_doctor.matrix.schema import Variable


def test_os_release_loses_its_quotes() -> None:
    release = parse_os_release('NAME="openEuler"\nID=\'openEuler\'\nVERSION_ID="22.03"\n# no\n')
    assert (release["ID"], release["VERSION_ID"]) == ("openEuler", "22.03")


def test_meminfo_is_bytes() -> None:
    assert parse_meminfo("MemTotal:       16 kB\nHugePages_Total:  3\n") == {"MemTotal": 16384}


def test_effective_capabilities_tell_a_privileged_container() -> None:
    status = "CapInh:\t0000000000000000\nCapEff:\t0000000000214000\nCapBnd:\tffffffffffffffff\n"
    assert parse_privileged(status)
    assert parse_privileged("CapEff:\t0000000000204000\n") is False
    assert parse_privileged("nothing") is None


def test_the_chosen_word_stands_in_brackets() -> None:
    assert parse_selected("always [madvise] never\n") == "madvise"
    assert parse_selected("always madvise never\n") is None


def test_the_newest_glibcxx_is_by_number() -> None:
    assert parse_glibcxx("GLIBCXX_3.4.9\0GLIBCXX_3.4.30\0GLIBCXX_3.4\0") == "GLIBCXX_3.4.30"
    assert parse_glibcxx("GLIBC_2.36") is None


@pytest.mark.parametrize(
    ("cgroup", "mounts", "kind"),
    [
        ("0::/kubepods.slice/pod1", "", "kubernetes"),
        ("12:cpu:/docker/abc", "", "docker"),
        ("0::/", "/var/lib/containers/libpod/x", "podman"),
        ("0::/init.scope", "", None),
    ],
)
def test_a_container_is_known_by_its_cgroup_or_mounts(
    cgroup: str, mounts: str, kind: str | None
) -> None:
    assert parse_container_kind(cgroup, mounts) == kind


def test_the_port_range_is_two_numbers() -> None:
    assert parse_port_range("32768\t60999\n") == (32768, 60999)
    assert parse_port_range("32768") is None


@given(st.text())
def test_no_parser_raises_on_any_text(text: str) -> None:
    for parse in (
        parse_os_release,
        parse_meminfo,
        parse_privileged,
        parse_selected,
        parse_glibcxx,
        parse_listening,
        parse_port_range,
    ):
        parse(text)
    parse_container_kind(text, text)


def test_the_live_host_is_told() -> None:
    facts = host(LiveMachine())
    assert facts.arch == os.uname().machine
    assert facts.kernel == os.uname().release
    assert facts.uid == os.geteuid()
    assert facts.cpus
    assert facts.memory
    assert {limit.name for limit in facts.limits} >= {"nofile", "memlock"}


def test_values_are_kept_by_an_allow_list_only() -> None:
    machine = LiveMachine(
        env={"HCCL_BUFFSIZE": "200", "HCCL_SECRET": "x", "HF_TOKEN": "hf_x", "HOME": "/h"}
    )
    facts = environment(
        machine, [Variable(name="HCCL_BUFFSIZE", group="hccl", meaning="", sources=())]
    )
    assert facts.variables == {"HCCL_BUFFSIZE": "200"}
    assert facts.withheld == ("HCCL_SECRET",)
    assert "hf_x" not in repr(facts)
    assert facts.interfaces


def record_machine(tmp_path: Path, files: dict[str, str], env: str = "{}") -> ReplayMachine:
    for path, text in files.items():
        target = tmp_path / "root" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (tmp_path / "machine.yaml").write_text(f"origin: a test\nenv: {env}\n")
    return ReplayMachine(tmp_path)


def test_the_loader_looks_where_its_configuration_says(tmp_path: Path) -> None:
    machine = record_machine(
        tmp_path,
        {
            "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n# no\n/opt/a\n",
            "/etc/ld.so.conf.d/ascend_driver_so.conf": "/usr/local/Ascend/driver/lib64\n",
            "/etc/ld.so.conf.d/circle.conf": "include /etc/ld.so.conf\n",
            "/usr/local/Ascend/driver/lib64/libascend_hal.so": "",
            "/own/libascend_hal.so": "",
        },
    )
    assert loader_folders(machine)[:2] == ("/usr/local/Ascend/driver/lib64", "/opt/a")
    assert find_library(machine, "libascend_hal.so") == (
        "/usr/local/Ascend/driver/lib64/libascend_hal.so"
    )
    assert find_library(machine, "libno.so") is None
    machine.env = {"LD_LIBRARY_PATH": "/nowhere:/own"}
    assert find_library(machine, "libascend_hal.so") == "/own/libascend_hal.so"
    assert places(machine)[0] == ("/nowhere", "LD_LIBRARY_PATH")


def test_an_empty_entry_of_the_library_path_is_the_current_folder(tmp_path: Path) -> None:
    machine = record_machine(tmp_path, {}, env='{LD_LIBRARY_PATH: "/a::/b"}')
    assert library_path(machine) == ("/a", ".", "/b")
    assert library_path(record_machine(tmp_path, {})) == ()


def test_addresses_of_a_name_in_the_hosts_file() -> None:
    text = "127.0.0.1 localhost\n192.0.2.1 a b # c\n192.0.2.2 b\n#192.0.2.3 d\n\nodd\n"
    assert parse_hosts(text, ("b", "c", "d")) == {"b": "192.0.2.1"}
