from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.cann import cann
from ascend_doctor.collect.cann_files import (
    parse_atb_version,
    parse_component,
    parse_running_versions,
)
from ascend_doctor.facts import CannInstall
from ascend_doctor.machine.live import LiveMachine
from tests import samples

from .sample_cann import lay_out_listing, lay_out_tree

OPERATORS = "opp/built-in/op_impl/ai_core/tbe/kernel"


def sample(name: str) -> str:
    return samples.read(f"cann/{name}")


@given(st.text())
def test_parsers_take_any_text(text: str) -> None:
    parse_component("x", text)
    parse_running_versions(text)
    parse_atb_version(text)


# --- trees on disk


def old_layout(folder: Path) -> Path:
    toolkit = lay_out_tree(sample("tree-8.1.RC1-depth3.txt"), folder)
    release = toolkit / "8.1.RC1"
    for name in ("compiler", "hccl", "opp", "runtime", "toolkit", "opp_kernel"):
        version_file = release / name / "version.info"
        version_file.write_text(sample(f"{name}-version.info-8.1.RC1.txt"))
    cfg = sample("latest-version.cfg-8.1.RC1.txt")
    (toolkit / "latest" / "version.cfg").write_text(cfg)
    info = sample("toolkit-install.info-8.1.RC1.txt")
    for parent in (release, toolkit / "latest"):
        (parent / "aarch64-linux" / "ascend_toolkit_install.info").write_text(info)
    (release / OPERATORS / "ascend910b" / "add").mkdir(parents=True)
    (release / OPERATORS / "config" / "ascend910b").mkdir(parents=True)
    return toolkit


def new_layout(folder: Path, version: str = "8.5.0") -> Path:
    root = folder / f"cann-{version}"
    lay_out_listing(sample("ls-cann-8.5.0.txt"), root)
    info = sample("toolkit-install.info-8.5.0.txt").replace("8.5.0", version)
    (root / "aarch64-linux" / "ascend_toolkit_install.info").write_text(info)
    ops = sample("ops-install.info-8.5-shape.txt")
    (root / "aarch64-linux" / "ascend_ops_install.info").write_text(ops)
    text = sample("component-version.info-9.1-shape.txt").replace("9.1.0", version)
    (root / "runtime" / "version.info").write_text(text)
    share = root / "share" / "info" / "hcomm"
    share.mkdir(parents=True)
    (share / "version.info").write_text(f"Version={version}\n")
    (root / OPERATORS / "ascend910_93" / "ops_oam").mkdir(parents=True)
    return root


@pytest.fixture
def ascend(no_real_home: Path) -> Path:
    folder = no_real_home / "Ascend"
    folder.mkdir()
    return folder


def home_machine(ascend: Path, **env: object) -> LiveMachine:
    return LiveMachine(
        {"HOME": str(ascend.parent), **{key: str(value) for key, value in env.items()}}
    )


def by_root(installs: tuple[CannInstall, ...], folder: Path) -> dict[str, CannInstall]:
    return {install.root.removeprefix(f"{folder}/"): install for install in installs}


def test_an_old_toolkit_is_one_install_under_all_its_names(ascend: Path) -> None:
    toolkit = old_layout(ascend)
    (toolkit / "8.1").symlink_to("./8.1.RC1")
    facts = cann(home_machine(ascend))
    (only,) = facts.installs
    assert only.root == f"{toolkit}/latest"
    assert (only.version, only.arch) == ("8.1.RC1", "aarch64")
    assert only.set_env == f"{toolkit}/set_env.sh"
    assert only.kernels == ("ascend910b",)
    assert only.ops_packages == ("opp_kernel 8.1.RC1",)
    names = {component.name for component in only.components}
    assert {"compiler", "hccl", "opp", "runtime", "opp_kernel"} <= names
    assert not names & {"ops", "acllib"}, "links to other components"
    assert facts.active is None
    assert not facts.shell.sourced


def test_version_cfg_names_what_has_no_file_of_its_own(ascend: Path) -> None:
    toolkit = old_layout(ascend)
    (toolkit / "8.1.RC1" / "hccl" / "version.info").unlink()
    (only,) = cann(home_machine(ascend)).installs
    hccl = next(component for component in only.components if component.name == "hccl")
    assert (hccl.version, hccl.public) == ("7.7.0.1.100", "8.1.RC1")


def test_a_new_toolkit_and_its_links_are_one_install(ascend: Path) -> None:
    root = new_layout(ascend)
    (ascend / "cann").symlink_to(root.name)
    (ascend / "ascend-toolkit").mkdir()
    (ascend / "ascend-toolkit" / "latest").symlink_to(root)
    (only,) = cann(home_machine(ascend)).installs
    assert only.root == f"{ascend}/cann"
    assert only.version == "8.5.0"
    assert only.set_env == f"{ascend}/cann/set_env.sh"
    assert not only.simulated
    assert only.kernels == (), "ascend910_93 has no operators"
    assert only.ops_packages == ("Ascend-cann-910b-ops 8.5.0",)
    assert {(component.name, component.public) for component in only.components} == {
        ("runtime", "8.5.0"),
        ("hcomm", "8.5.0"),
    }


def test_a_sourced_environment_names_the_active_install(ascend: Path) -> None:
    root = new_layout(ascend)
    (ascend / "cann").symlink_to(root.name)
    other = new_layout(ascend, "9.0.0")
    facts = cann(
        home_machine(
            ascend,
            ASCEND_HOME_PATH=root,
            ASCEND_OPP_PATH=ascend / "cann" / "opp",
            LD_LIBRARY_PATH=f"{ascend}/cann/lib64:{root}/tools/aml/lib64:{other}/lib64",
            PYTHONPATH=f"{other}/python/site-packages::relative",
        )
    )
    assert set(by_root(facts.installs, ascend)) == {"cann-8.5.0", "cann-9.0.0"}
    assert facts.active == str(root)
    assert facts.shell.home == str(root)
    assert facts.shell.opp == f"{root}/opp", "spelled as the install is"
    assert facts.shell.library_roots == (str(root), str(other))
    assert facts.shell.python_roots == (str(other),)
    assert facts.shell.stale == (), "tools/aml is missing, but its toolkit is there"


def test_folders_of_a_toolkit_that_is_gone_are_stale(ascend: Path) -> None:
    gone = "/usr/local/Ascend/cann-0.0.0"
    facts = cann(
        home_machine(
            ascend,
            ASCEND_HOME_PATH=gone,
            LD_LIBRARY_PATH=f"{gone}/lib64:/nowhere/lib64:/usr/local/Ascend/driver/lib64/gone",
            PYTHONPATH=f"{gone}/python/site-packages:/nowhere",
        )
    )
    assert facts.active is None
    assert facts.shell.sourced
    assert facts.shell.stale == (gone, f"{gone}/lib64", f"{gone}/python/site-packages")


def test_nnal_is_found_and_matched_with_its_variable(ascend: Path) -> None:
    release = ascend / "nnal" / "atb" / "8.1.RC1"
    (release / "atb" / "cxx_abi_1").mkdir(parents=True)
    (release / "version.info").write_text(sample("nnal-atb-version.info-8.1.RC1.txt"))
    (release.parent / "latest").symlink_to("8.1.RC1")
    (release.parent / "set_env.sh").write_text("")
    (plain,) = cann(home_machine(ascend)).nnal
    assert plain.root == f"{release.parent}/latest"
    assert plain.set_env == f"{release.parent}/set_env.sh"
    assert plain.version == "8.1.RC1"
    sourced = cann(home_machine(ascend, ATB_HOME_PATH=release / "atb" / "cxx_abi_1"))
    (only,) = sourced.nnal
    assert sourced.shell.atb is not None
    assert sourced.shell.atb.startswith(f"{only.root}/")


def test_a_marked_tree_is_simulated(ascend: Path) -> None:
    root = new_layout(ascend)
    info = root / "aarch64-linux" / "ascend_toolkit_install.info"
    info.write_text("version=9.1.0\ninnerversion=simulated\n")
    assert cann(home_machine(ascend)).installs[0].simulated


def test_hostile_trees_are_survived(ascend: Path) -> None:
    root = new_layout(ascend)
    (ascend / "cann").symlink_to("cann")
    info = root / "aarch64-linux" / "ascend_toolkit_install.info"
    info.write_bytes(b"\xff\xfe\x00version=" * 1000)
    (root / "runtime" / "version.info").unlink()
    (root / "runtime" / "version.info").mkdir()
    cann(home_machine(ascend, ASCEND_HOME_PATH="\x01/..", LD_LIBRARY_PATH=":::", ATB_HOME_PATH="/"))


def test_a_folder_that_is_no_toolkit_is_none(ascend: Path) -> None:
    (ascend / "cann").mkdir()
    (ascend / "cann-1" / "runtime").mkdir(parents=True)
    facts = cann(home_machine(ascend, ASCEND_HOME_PATH=ascend))
    assert facts.installs == ()
    assert facts.shell.home == str(ascend)
