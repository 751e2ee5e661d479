from ascend_doctor.facts import PackageCopy, Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import fails, passes, remedy_of, skips, warns
from tests.checks.machine import SITE, copy, dist, healthy, imports, packages, run, set_to

CHECKOUT = copy("/src/Megatron-LM/megatron", "/src/Megatron-LM", "core", "training", core="0.12.1")
WHEEL = copy(f"{SITE}/megatron", SITE, "core", core="0.15.3")


def megatrons(*copies: PackageCopy) -> Snapshot:
    return imports(healthy(), "megatron", *copies)


def test_a_wheel_behind_the_checkout() -> None:
    facts = packages(megatrons(CHECKOUT, WHEEL), dist("megatron-core", "0.15.3"))
    finding = warns("megatron-two-copies", facts, "2 Megatrons", "megatron.core 0.12.1 is")
    assert remedy_of(finding).commands == ("/venv/bin/python -m pip uninstall -y megatron-core",)


def test_core_of_one_tree_and_training_of_another() -> None:
    facts = megatrons(WHEEL, CHECKOUT)
    finding = fails(
        "megatron-two-copies",
        facts,
        "megatron.core is 0.15.3, megatron.training is 0.12.1",
        f"megatron.core from {SITE}/megatron",
    )
    assert remedy_of(finding).commands == ()


def test_a_mixture_of_one_release_or_of_an_unknown_one_is_a_warning() -> None:
    same = copy("/a/megatron", "/a", "core", core="0.12.1")
    warns("megatron-two-copies", megatrons(same, CHECKOUT), "are mixed")
    part = copy("/b/megatron", "/b", "training")
    unknown = copy("/a/megatron", "/a", "core")
    warns("megatron-two-copies", megatrons(unknown, part), "of unknown version")


def test_two_trees_of_one_release() -> None:
    again = copy("/b/megatron", "/b", "core", "training", core="0.12.1")
    warns("megatron-two-copies", megatrons(CHECKOUT, again), "of one release")


def test_a_normal_package_in_front_hides_all_others() -> None:
    normal = PackageCopy(path="/n/megatron", entry="/n", kind="package", parts=("features",))
    fails("megatron-two-copies", megatrons(normal, CHECKOUT), "/n/megatron has an __init__.py")
    whole = PackageCopy(path="/n/megatron", entry="/n", kind="package", parts=("core",))
    warns("megatron-two-copies", megatrons(whole, WHEEL), "2 Megatrons")


def test_no_megatron_is_no_subject() -> None:
    for name in ("megatron-two-copies", "megatron-training"):
        skips(name, megatrons())
    warns("megatron-path", megatrons(), "no Megatron can be imported")


def test_megatron_lm_path_names_another_tree() -> None:
    facts = set_to(healthy(), MEGATRON_LM_PATH="/other/Mega tron/")
    finding = warns("megatron-path", facts, "/other/Mega tron/", "/src/Megatron-LM")
    assert remedy_of(finding).commands == (
        "export PYTHONPATH='/other/Mega tron/'${PYTHONPATH:+:$PYTHONPATH}",
    )
    skips("megatron-path", set_to(healthy(), MEGATRON_LM_PATH=""))
    near = set_to(healthy(), MEGATRON_LM_PATH="/src/Megatron")
    warns("megatron-path", near)


def test_megatron_core_alone() -> None:
    facts = megatrons(WHEEL)
    finding = warns("megatron-training", facts, "only megatron.core", "core")
    assert remedy_of(finding).commands[0] == (
        "git clone --branch core_v0.12.1 https://github.com/NVIDIA/Megatron-LM.git"
    )
    unknown = imports(facts, "mindspeed", copy("/s/mindspeed", "/s"))
    finding = warns("megatron-training", unknown)
    assert remedy_of(finding).commands == ()
    passes("megatron-training", imports(facts, "mindspeed"))


def test_mindspeed_is_missing() -> None:
    facts = imports(healthy(), "mindspeed")
    finding = warns("mindspeed-installed", facts, "MindSpeed is not installed")
    assert remedy_of(finding).commands == (
        "git clone --branch 26.1.0_core_r0.12.1 https://gitcode.com/Ascend/MindSpeed.git",
        "/venv/bin/python -m pip install -e ./MindSpeed",
    )
    placeholder = packages(facts, dist("mindspeed", "0.0.1.dev1"))
    assert run("mindspeed-installed", placeholder)[0].level is Level.SKIPPED, "told elsewhere"
    layered = imports(facts, "megatron_adaptor", copy("/a/megatron_adaptor", "/a"))
    passes("mindspeed-installed", layered)
