import msgspec

from ascend_doctor.facts import CannInstall, CannShell, Library, Needed, Snapshot
from ascend_doctor.findings import Level
from tests.checks.machine import (
    ROOT,
    dist,
    having,
    healthy,
    install,
    only,
    packages,
    run,
    shell,
    without,
)

OTHER = "/usr/local/Ascend/cann-9.0.0"


def two() -> Snapshot:
    facts = healthy()
    assert facts.cann is not None
    other = msgspec.structs.replace(
        facts.cann.installs[0], root=OTHER, version="9.0.0", set_env=f"{OTHER}/set_env.sh"
    )
    return having(facts, "cann", installs=(*facts.cann.installs, other))


def test_the_operators_folder_is_not_named() -> None:
    only("cann-sourced", shell(healthy(), opp=None), Level.WARNING, "ASCEND_OPP_PATH is unset")


def test_no_cann_is_an_error_where_there_is_an_npu_or_torch_npu() -> None:
    facts = having(healthy(), "cann", installs=(), active=None)
    finding = only("cann-installed", facts, Level.ERROR, "CANN is not installed")
    assert finding.remedy is not None
    assert "CANN 8.5.0, which torch_npu 2.7.1.post2" in finding.remedy.summary
    newest = only("cann-installed", packages(facts, dist("torch-npu", "2.13.0")), Level.ERROR)
    assert newest.remedy is not None
    assert "belongs to your torch_npu" in newest.remedy.summary
    bare = without(packages(facts, gone=("torch-npu",)), "driver")
    assert run("cann-installed", bare)[0].level is Level.SKIPPED
    assert run("cann-sourced", facts)[0].level is Level.SKIPPED


def test_cann_that_is_not_sourced() -> None:
    facts = having(healthy(), "cann", shell=CannShell(), active=None)
    finding = only("cann-sourced", facts, Level.WARNING, "CANN 8.5.0 is installed, but")
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "source /usr/local/Ascend/cann/set_env.sh",
        "source /usr/local/Ascend/nnal/atb/set_env.sh",
    )
    facts = having(facts, "native", needed=(Needed(name="libhccl.so"),))
    only("cann-sourced", facts, Level.ERROR, "does not find the libraries")
    finding = only("cann-sourced", install(facts, set_env=None), Level.ERROR)
    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_an_environment_for_a_cann_that_is_gone() -> None:
    facts = shell(healthy(), home="/old/cann", stale=("/old/cann", "/old/cann/opp"))
    only("cann-stale", facts, Level.ERROR, "made for a CANN that is gone", "/old/cann")
    many = tuple(f"/old/{n}" for n in range(6))
    finding = only("cann-stale", shell(healthy(), stale=many), Level.WARNING, "6 folders", "...")
    assert finding.remedy is not None
    assert finding.remedy.commands[1:] == (
        "source /usr/local/Ascend/cann/set_env.sh",
        "source /usr/local/Ascend/nnal/atb/set_env.sh",
        "export PYTHONPATH=/src/Megatron-LM${PYTHONPATH:+:$PYTHONPATH}",
    )


def test_libraries_of_one_release_and_operators_of_another() -> None:
    facts = shell(two(), library_roots=(OTHER, ROOT))
    finding = only("cann-mixed", facts, Level.ERROR, "8.5.0, 9.0.0", "LD_LIBRARY_PATH: CANN 9.0.0")
    assert finding.remedy is not None
    assert finding.remedy.commands[0].startswith("unset LD_LIBRARY_PATH PYTHONPATH")


def test_a_second_release_behind_the_first_is_a_warning() -> None:
    facts = shell(two(), library_roots=(ROOT, OTHER))
    only("cann-mixed", facts, Level.WARNING, "A second CANN", "CANN 9.0.0")


def test_a_nested_root_is_told_from_its_parent() -> None:
    facts = having(
        healthy(),
        "cann",
        installs=(
            CannInstall(root="/a", layout="old", version="8.1.RC1"),
            CannInstall(root="/a/b", layout="old", version="8.2.RC1"),
        ),
        active="/a/b",
        shell=CannShell(home="/a/b", opp="/a/b/opp", library_roots=("/a/b",)),
    )
    assert run("cann-mixed", facts)[0].level is Level.OK


def test_of_two_releases_the_one_of_torch_npu_is_offered() -> None:
    facts = healthy()
    assert facts.cann is not None
    ours = facts.cann.installs[0]
    old = msgspec.structs.replace(
        ours, root="/old", version="8.1.RC1", set_env="/old/set_env.sh", layout="old"
    )
    facts = having(facts, "cann", installs=(old, ours), active="/old")
    mixed = shell(facts, home="/old", opp="/old/opp", library_roots=("/old",))
    for identity, level in (("cann-mixed", Level.ERROR), ("torch-npu-cann", Level.WARNING)):
        finding = only(identity, mixed, level, "8.1.RC1")
        assert finding.remedy is not None
        assert f"source {ours.set_env}" in finding.remedy.commands
        assert "source /old/set_env.sh" not in finding.remedy.commands


def test_a_devlib_folder_on_the_library_path_is_reported() -> None:
    facts = shell(healthy(), devlib=True)
    only("cann-devlib", facts, Level.WARNING, "devlib")
    stub = Library(name="libascend_hal.so", path=f"{ROOT}/devlib/libascend_hal.so")
    only("cann-devlib", having(facts, "native", hal=stub), Level.ERROR, "see no NPU")
    only("cann-devlib", without(facts, "native"), Level.WARNING, "could not tell which")
    assert run("cann-devlib", having(facts, "driver", nodes=()))[0].level is Level.SKIPPED


def test_several_installations() -> None:
    only("cann-versions", two(), Level.OK, "CANN 8.5.0 is in use; 2 installations")
    facts = having(two(), "cann", active=None)
    finding = only("cann-versions", facts, Level.WARNING, "none is chosen", OTHER)
    assert finding.remedy is not None
    assert f"{OTHER}/set_env.sh" in finding.remedy.summary


def test_set_env_path_names_the_script_of_the_release() -> None:
    finding = only("set-env-path", healthy(), Level.OK, "/usr/local/Ascend/cann/set_env.sh")
    assert "older release" in finding.because
    finding = only("set-env-path", install(healthy(), version="8.3.RC1"), Level.OK, "8.3.RC1")
    assert finding.because == ""
    only("set-env-path", install(healthy(), set_env=None), Level.UNKNOWN)
    only("set-env-path", install(healthy(), version="odd one"), Level.UNKNOWN)
    assert run("set-env-path", having(healthy(), "cann", active=None))[0].level is Level.SKIPPED
