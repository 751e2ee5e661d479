import msgspec
import pytest

from ascend_doctor.facts import ToolError
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, skips, warns
from tests.checks.machine import having, healthy, run
from tests.checks.server import GIB, a2, commands, inside, npu


def test_memory_of_the_host() -> None:
    facts = having(a2(), "host", memory=1024 * GIB, memory_available=900 * GIB)
    passes("host-memory", facts)
    little = having(facts, "host", memory=8 * GIB)
    warns("host-memory", little, "Only 8 GB", "64 GB")
    taken = having(facts, "host", memory_available=4 * GIB)
    assert "ps aux" in commands(warns("host-memory", taken, "4 GB are available"))
    limited = inside(having(facts, "host", memory_limit=8 * GIB))
    finding = warns("host-memory", limited, "the control group allows 8 GB")
    assert "--memory" in commands(finding)
    cannot_tell("host-memory", having(a2(), "host", memory=None), "how much memory the host has")
    silent = having(facts, "npus", devices=(npu(0, hbm=None),))
    cannot_tell("host-memory", silent, "an NPU has")
    failed = having(facts, "npus", devices=(), error=ToolError(kind="no-card", text="none"))
    skips("host-memory", failed)
    blind = having(having(failed, "driver", nodes=()), "host", cpus_usable=8)
    skips("host-cpus", blind)


def test_simulated_npus_may_be_more_than_the_host_is_for() -> None:
    small = having(a2(), "host", memory=4 * GIB, cpus_usable=1)
    for check in ("host-memory", "host-cpus"):
        warns(check, small)
        simulated = msgspec.structs.replace(small, simulated=True)
        skips(check, simulated)


def test_cpus_of_the_host() -> None:
    facts = having(a2(), "host", cpus=192, cpus_usable=192)
    passes("host-cpus", facts)
    passes("host-cpus", having(facts, "host", cpus_usable=8))
    warns("host-cpus", having(facts, "host", cpus_usable=1), "1 CPU for 8 NPUs")
    cannot_tell("host-cpus", having(a2(), "host", cpus=None, cpus_usable=None), "how many CPUs")


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
    fails("system-libraries", having(healthy(), section, **fields), *words)


def test_libraries_that_are_not_known() -> None:
    for section, fields in (("host", {"glibc": None}), ("native", {"versions": ()})):
        cannot_tell("system-libraries", having(healthy(), section, **fields))
    passes("system-libraries", healthy())
    newer = having(healthy(), "native", libstdcxx="/conda/x.so.6", glibcxx="GLIBCXX_3.4.33")
    old_system = having(newer, "host", glibcxx="GLIBCXX_3.4.19")
    assert run("system-libraries", old_system)[0].level is Level.OK, "conda's own comes first"
