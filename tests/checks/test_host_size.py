import msgspec
import pytest

from ascend_doctor.facts import ToolError
from ascend_doctor.findings import Level
from tests.checks.machine import having, healthy, only, run
from tests.checks.server import GIB, a2, commands, inside, npu


def test_memory_of_the_host() -> None:
    facts = having(a2(), "host", memory=1024 * GIB, memory_available=900 * GIB)
    assert run("host-memory", facts)[0].level is Level.OK
    little = having(facts, "host", memory=8 * GIB)
    only("host-memory", little, Level.WARNING, "Only 8 GB", "64 GB")
    taken = having(facts, "host", memory_available=4 * GIB)
    assert "ps aux" in commands(only("host-memory", taken, Level.WARNING, "4 GB are available"))
    limited = inside(having(facts, "host", memory_limit=8 * GIB))
    finding = only("host-memory", limited, Level.WARNING, "the control group allows 8 GB")
    assert "--memory" in commands(finding)
    only("host-memory", a2(), Level.UNKNOWN, "how much memory the host has")
    silent = having(facts, "npus", devices=(npu(0, hbm=None),))
    only("host-memory", silent, Level.UNKNOWN, "an NPU has")
    failed = having(facts, "npus", devices=(), error=ToolError(kind="no-card", text="none"))
    assert run("host-memory", failed)[0].level is Level.SKIPPED
    blind = having(having(failed, "driver", nodes=()), "host", cpus_usable=8)
    assert run("host-cpus", blind)[0].level is Level.SKIPPED


def test_simulated_npus_may_be_more_than_the_host_is_for() -> None:
    small = having(a2(), "host", memory=4 * GIB, cpus_usable=1)
    for check in ("host-memory", "host-cpus"):
        assert run(check, small)[0].level is Level.WARNING
        simulated = msgspec.structs.replace(small, simulated=True)
        assert run(check, simulated)[0].level is Level.SKIPPED


def test_cpus_of_the_host() -> None:
    facts = having(a2(), "host", cpus=192, cpus_usable=192)
    assert run("host-cpus", facts)[0].level is Level.OK
    assert run("host-cpus", having(facts, "host", cpus_usable=8))[0].level is Level.OK
    only("host-cpus", having(facts, "host", cpus_usable=1), Level.WARNING, "1 CPU for 8 NPUs")
    only("host-cpus", a2(), Level.UNKNOWN, "how many CPUs")


@pytest.mark.parametrize(
    ("section", "fields", "words"),
    [
        ("host", {"glibc": "2.17"}, ("GLIBC_2.17 instead of GLIBC_2.28",)),
        ("host", {"glibcxx": "GLIBCXX_3.4.9"}, ("GLIBCXX_3.4.9 instead of GLIBCXX_3.4.22",)),
        (
            "native",
            {"glibcxx": "GLIBCXX_3.4.21", "libstdcxx": "/conda/lib/libstdc++.so.6"},
            ("/conda/lib/libstdc++.so.6",),
        ),
    ],
)
def test_old_libraries(section: str, fields: dict[str, str], words: tuple[str, ...]) -> None:
    only("system-libraries", having(healthy(), section, **fields), Level.ERROR, *words)


def test_libraries_that_are_not_known() -> None:
    for section, fields in (("host", {"glibc": None}), ("native", {"versions": ()})):
        only("system-libraries", having(healthy(), section, **fields), Level.UNKNOWN)
    assert run("system-libraries", healthy())[0].level is Level.OK
    newer = having(healthy(), "native", libstdcxx="/conda/x.so.6", glibcxx="GLIBCXX_3.4.33")
    old_system = having(newer, "host", glibcxx="GLIBCXX_3.4.19")
    assert run("system-libraries", old_system)[0].level is Level.OK, "conda's own comes first"
