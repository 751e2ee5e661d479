from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, skips, warns
from tests.checks.machine import dist, healthy, install, packages, run, without


def test_a_stack_that_the_framework_does_not_document() -> None:
    facts = install(packages(healthy(), dist("torch", "2.9.0")), version="9.1.0")
    finding = warns(
        "framework-stack",
        facts,
        "ms-swift 4.1.3 is documented with other versions",
        "cann 8.5.1",
        "torch 2.7.1",
    )
    assert "torch 2.9.0" in finding.observed
    # A row's note of the release concerns something else.
    assert (
        finding.because
        == "This set is not the one of its documents; that it works is not reported."
    )


def test_a_framework_that_no_table_has() -> None:
    facts = packages(healthy(), dist("ms-swift", "99.0"))
    cannot_tell("framework-stack", facts, "No table has ms-swift 99.0")


def test_a_release_that_says_another_version_of_itself() -> None:
    """The tag v0.8.0 of verl says 0.8.0.dev."""
    facts = packages(healthy(), dist("verl", "0.8.0.dev0"), gone=("ms-swift",))
    facts = packages(facts, dist("torch", "2.10.0"))
    warns("framework-stack", facts, "verl 0.8.0.dev0 is documented with", "torch")


def test_what_cannot_be_told_is_said() -> None:
    findings = run("framework-stack", without(healthy(), "cann"))
    assert [finding.level for finding in findings] == [Level.UNKNOWN]
    assert findings[0].observed == "cann: not collected"
    none = packages(healthy(), gone=("ms-swift",))
    skips("framework-stack", none)


def test_twinkle_and_mindspeed_want_different_numpy() -> None:
    facts = packages(healthy(), dist("twinkle-kit", "0.5.1"))
    warns("twinkle-mindspeed-numpy", facts, "numpy 1.26.0", "<=1.26.0")
    warns("twinkle-mindspeed-numpy", packages(facts, gone=("numpy",)), "not installed")
