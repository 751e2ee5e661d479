from ascend_doctor.facts import PackageCopy, Snapshot
from ascend_doctor.findings import Level
from tests.checks.machine import SITE, copy, dist, healthy, imports, only, packages, run, set_to

CHECKOUT = copy("/src/Megatron-LM/megatron", "/src/Megatron-LM", "core", "training", core="0.12.1")
WHEEL = copy(f"{SITE}/megatron", SITE, "core", core="0.15.3")


def megatrons(*copies: PackageCopy) -> Snapshot:
    return imports(healthy(), "megatron", *copies)


def test_a_wheel_behind_the_checkout() -> None:
    facts = packages(megatrons(CHECKOUT, WHEEL), dist("megatron-core", "0.15.3"))
    finding = only(
        "megatron-two-copies", facts, Level.WARNING, "2 Megatrons", "megatron.core 0.12.1 is"
    )
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/venv/bin/python -m pip uninstall -y megatron-core",)


def test_core_of_one_tree_and_training_of_another() -> None:
    facts = megatrons(WHEEL, CHECKOUT)
    finding = only(
        "megatron-two-copies",
        facts,
        Level.ERROR,
        "megatron.core is 0.15.3, megatron.training is 0.12.1",
        f"megatron.core from {SITE}/megatron",
    )
    assert finding.remedy is not None
    assert finding.remedy.commands == ()


def test_a_mixture_of_one_release_or_of_an_unknown_one_is_a_warning() -> None:
    same = copy("/a/megatron", "/a", "core", core="0.12.1")
    only("megatron-two-copies", megatrons(same, CHECKOUT), Level.WARNING, "are mixed")
    part = copy("/b/megatron", "/b", "training")
    unknown = copy("/a/megatron", "/a", "core")
    only("megatron-two-copies", megatrons(unknown, part), Level.WARNING, "of unknown version")


def test_two_trees_of_one_release() -> None:
    again = copy("/b/megatron", "/b", "core", "training", core="0.12.1")
    only("megatron-two-copies", megatrons(CHECKOUT, again), Level.WARNING, "of one release")


def test_a_normal_package_in_front_hides_all_others() -> None:
    normal = PackageCopy(path="/n/megatron", entry="/n", kind="package", parts=("features",))
    assert run("megatron-two-copies", megatrons(normal, CHECKOUT))[0].level is Level.SKIPPED
    whole = PackageCopy(path="/n/megatron", entry="/n", kind="package", parts=("core",))
    only("megatron-two-copies", megatrons(whole, WHEEL), Level.WARNING, "2 Megatrons")


def test_no_megatron_is_no_subject() -> None:
    for name in ("megatron-two-copies", "megatron-training"):
        assert run(name, megatrons())[0].level is Level.SKIPPED
    only("megatron-path", megatrons(), Level.WARNING, "no Megatron can be imported")


def test_megatron_lm_path_names_another_tree() -> None:
    facts = set_to(healthy(), MEGATRON_LM_PATH="/other/Mega tron/")
    finding = only("megatron-path", facts, Level.WARNING, "/other/Mega tron/", "/src/Megatron-LM")
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "export PYTHONPATH='/other/Mega tron/'${PYTHONPATH:+:$PYTHONPATH}",
    )
    assert run("megatron-path", set_to(healthy(), MEGATRON_LM_PATH=""))[0].level is Level.SKIPPED
    near = set_to(healthy(), MEGATRON_LM_PATH="/src/Megatron")
    only("megatron-path", near, Level.WARNING)


def test_megatron_core_alone() -> None:
    facts = megatrons(WHEEL)
    finding = only("megatron-training", facts, Level.WARNING, "only megatron.core", "core")
    assert finding.remedy is not None
    assert finding.remedy.commands[0] == (
        "git clone --branch core_v0.12.1 https://github.com/NVIDIA/Megatron-LM.git"
    )
    unknown = imports(facts, "mindspeed", copy("/s/mindspeed", "/s"))
    finding = only("megatron-training", unknown, Level.WARNING)
    assert finding.remedy is not None
    assert finding.remedy.commands == ()
    assert run("megatron-training", imports(facts, "mindspeed"))[0].level is Level.OK


def test_mindspeed_is_missing() -> None:
    facts = imports(healthy(), "mindspeed")
    finding = only("mindspeed-installed", facts, Level.WARNING, "MindSpeed is not installed")
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "git clone --branch 26.1.0_core_r0.12.1 https://gitcode.com/Ascend/MindSpeed.git",
        "/venv/bin/python -m pip install -e ./MindSpeed",
    )
    placeholder = packages(facts, dist("mindspeed", "0.0.1.dev1"))
    assert run("mindspeed-installed", placeholder)[0].level is Level.SKIPPED, "told elsewhere"
    layered = imports(facts, "megatron_adaptor", copy("/a/megatron_adaptor", "/a"))
    assert run("mindspeed-installed", layered)[0].level is Level.OK
