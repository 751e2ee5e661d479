import msgspec

from ascend_doctor.facts import CannInstall, CannShell, Needed, Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import check_level, fails, passes, remedy_of, skips, warns
from tests.checks.machine import ROOT, dist, having, healthy, install, packages, shell, without

OTHER = "/usr/local/Ascend/cann-9.0.0"


def two() -> Snapshot:
    facts = healthy()
    assert facts.cann is not None
    other = msgspec.structs.replace(
        facts.cann.installs[0], root=OTHER, version="9.0.0", set_env=f"{OTHER}/set_env.sh"
    )
    return having(facts, "cann", installs=(*facts.cann.installs, other))


def test_the_operators_folder_is_not_named() -> None:
    warns("cann-sourced", shell(healthy(), opp=None), "ASCEND_OPP_PATH is unset")


def test_no_cann_is_an_error_where_there_is_an_npu_or_torch_npu() -> None:
    facts = having(healthy(), "cann", installs=(), active=None)
    finding = fails("cann-installed", facts, "CANN is not installed")
    assert "CANN 8.5.0, which torch_npu 2.7.1.post2" in remedy_of(finding).summary
    newest = fails("cann-installed", packages(facts, dist("torch-npu", "2.13.0")))
    assert "belongs to your torch_npu" in remedy_of(newest).summary
    bare = without(packages(facts, gone=("torch-npu",)), "driver")
    skips("cann-installed", bare)
    skips("cann-sourced", facts)


def test_cann_that_is_not_sourced() -> None:
    facts = having(healthy(), "cann", shell=CannShell(), active=None)
    finding = warns("cann-sourced", facts, "CANN 8.5.0 is installed, but")
    assert remedy_of(finding).commands == (
        "source /usr/local/Ascend/cann/set_env.sh",
        "source /usr/local/Ascend/nnal/atb/set_env.sh",
    )
    facts = having(facts, "native", needed=(Needed(name="libhccl.so"),))
    fails("cann-sourced", facts, "does not find the libraries")
    finding = fails("cann-sourced", install(facts, set_env=None))
    assert remedy_of(finding).commands == ()


def test_an_environment_for_a_cann_that_is_gone() -> None:
    facts = shell(healthy(), home="/old/cann", stale=("/old/cann", "/old/cann/opp"))
    fails("cann-stale", facts, "made for a CANN that is gone", "/old/cann")
    many = tuple(f"/old/{n}" for n in range(6))
    finding = warns("cann-stale", shell(healthy(), stale=many), "6 folders", "...")
    assert remedy_of(finding).commands[1:] == (
        "source /usr/local/Ascend/cann/set_env.sh",
        "source /usr/local/Ascend/nnal/atb/set_env.sh",
        "export PYTHONPATH=/src/Megatron-LM${PYTHONPATH:+:$PYTHONPATH}",
    )


def test_libraries_of_one_release_and_operators_of_another() -> None:
    facts = shell(two(), named={"LD_LIBRARY_PATH": OTHER, "PYTHONPATH": ROOT})
    finding = fails("cann-mixed", facts, "8.5.0, 9.0.0", "PYTHONPATH")
    assert remedy_of(finding).commands[0].startswith("unset LD_LIBRARY_PATH PYTHONPATH")


def test_a_second_release_behind_the_first_is_a_warning() -> None:
    facts = shell(two(), library_roots=(ROOT, OTHER))
    warns("cann-mixed", facts, "A second CANN", "CANN 9.0.0")


def test_a_nested_root_is_told_from_its_parent() -> None:
    facts = having(
        healthy(),
        "cann",
        installs=(
            CannInstall(root="/a", version="8.1.RC1"),
            CannInstall(root="/a/b", version="8.2.RC1"),
        ),
        active="/a/b",
        shell=CannShell(home="/a/b", opp="/a/b/opp", library_roots=("/a/b",)),
    )
    passes("cann-mixed", facts)


def test_of_two_releases_the_one_of_torch_npu_is_offered() -> None:
    facts = healthy()
    assert facts.cann is not None
    ours = facts.cann.installs[0]
    old = msgspec.structs.replace(ours, root="/old", version="8.1.RC1", set_env="/old/set_env.sh")
    facts = having(facts, "cann", installs=(old, ours), active="/old")
    mixed = shell(facts, named={"ASCEND_HOME_PATH": "/old", "PYTHONPATH": ROOT})
    for identity, level in (("cann-mixed", Level.ERROR), ("torch-npu-cann", Level.WARNING)):
        finding = check_level(level, identity, mixed, "8.1.RC1")
        assert f"source {ours.set_env}" in remedy_of(finding).commands
        assert "source /old/set_env.sh" not in remedy_of(finding).commands
