import pytest

from ascend_doctor.checks.npu.ray_devices import _NAME
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, skips, warns
from tests.checks.machine import dist, having, healthy, packages, run


def machine(release: str, value: str | None, *, verl: bool = False) -> Snapshot:
    more = (dist("verl", "0.8.0"),) if verl else ()
    facts = packages(healthy(), dist("ray", release), *more)
    return having(facts, "environment", variables={} if value is None else {_NAME: value})


@pytest.mark.parametrize("value", ["1", "true", "True"])
@pytest.mark.parametrize("release", ["2.53.0", "2.54.0", "3.0.0.dev0"])
def test_one_means_the_same_everywhere(release: str, value: str) -> None:
    passes("ray-visible-devices", machine(release, value, verl=True))


@pytest.mark.parametrize("value", ["0", "false", "yes"])
def test_any_text_counts_before_2_54(value: str) -> None:
    finding = warns(
        "ray-visible-devices",
        machine("2.53.0", value),
        f"{_NAME}={value} counts as set in Ray 2.53.0",
    )
    assert "all devices" in finding.because


def test_later_it_does_not() -> None:
    finding = warns(
        "ray-visible-devices", machine("2.54.0", "0"), "does not count as set in Ray 2.54.0"
    )
    assert finding.remedy is not None
    assert "verl" not in finding.because


def test_verl_and_a_new_ray_read_it_differently() -> None:
    facts = machine("2.60.0", "0", verl=True)
    finding = fails("ray-visible-devices", facts, "does not count as set")
    assert "107001" in finding.because


@pytest.mark.parametrize("value", [None, "1"])
def test_an_old_ray_sets_what_nobody_reads(value: str | None) -> None:
    facts = machine("2.9.3", value)
    warns("ray-visible-devices", facts, "Ray 2.9.3 does not choose the devices")
    passes("ray-visible-devices", machine("2.10.0", value))


def test_unset_is_fine() -> None:
    passes("ray-visible-devices", machine("2.60.0", None))
    (finding,) = run("ray-visible-devices", machine("2.60.0", "", verl=True))
    assert (finding.level, finding.title) == (Level.OK, "Ray chooses the devices of each actor")


def test_what_cannot_be_told() -> None:
    cannot_tell("ray-visible-devices", machine("nightly", "0"))
    skips("ray-visible-devices", healthy())
