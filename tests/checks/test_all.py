import re
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.facts import ImportName, Snapshot
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case, judge
from tests.checks.machine import (
    CATALOG,
    CHECKS,
    copy,
    dist,
    having,
    healthy,
    packages,
    run,
    shell,
    without,
)
from tests.checks.server import a2, a3, inside

# A check of launches gets a launch, one of probes a record.
MINE = sorted(
    name
    for name, check in CHECKS.items()
    if not check.probe and check.level == 0 and check.scope == ""
)
# They look at a whole server, which has its own tests (tests/checks/server.py). Any other check
# must be content with tests/checks/machine.py's healthy machine.
OF_A_SERVER = frozenset(
    {"device-managers", "disk-room", "driver-complete", "driver-firmware"}
    | {"driver-running", "hccn-addresses", "hccn-conf", "hccn-gateway"}
    | {"hccn-health", "hccn-link", "hccn-tls", "hccn-tool"}
    | {"host-cpus", "host-memory", "npu-alike", "npu-ecc"}
    | {"npu-free", "npu-health", "npu-memory", "npu-temperature"}
    | {"npu-topology", "ports-free", "ports-reserved", "rank-table-content"}
    | {"resource-limits", "shared-memory", "socket-default", "stack-lock"}
)
# Those of a launch's variables, too.
EVERY = sorted({*MINE, *(name for name, check in CHECKS.items() if check.scope == "launch")})
SECTIONS = (
    *("host", "driver", "npus", "cann", "python", "native", "import_path", "environment"),
    *("hccn", "holders", "rank_table"),
)
SERVER = inside(a3(HCCL_SOCKET_IFNAME="eth", ASCEND_RT_VISIBLE_DEVICES="0"))
FACTS = st.sampled_from([healthy(), a2(), SERVER])


@pytest.mark.parametrize("device", ["npu", "cuda", "cpu"])
def test_a_healthy_machine_has_no_complaint(device: str) -> None:
    for identity in {*MINE} - OF_A_SERVER:
        for finding in run(identity, healthy(), device):
            assert finding.level <= Level.SKIPPED, finding


def test_nothing_collected_is_unknown_or_skipped() -> None:
    for identity in EVERY:
        for finding in run(identity, Snapshot()):
            assert finding.level in (Level.UNKNOWN, Level.SKIPPED), finding
            assert "the check itself failed" not in finding.title, finding


@given(FACTS, st.sets(st.sampled_from(SECTIONS)), st.sampled_from(["npu", "cuda", "cpu"]))
def test_missing_sections_never_crash_a_check(facts: Snapshot, gone: set[str], device: str) -> None:
    for section in gone:
        facts = without(facts, section)
    case = Case(facts=facts, catalog=CATALOG, device=device)
    for finding in judge(case, [CHECKS[name] for name in EVERY]):
        assert "the check itself failed" not in finding.title, finding


@given(FACTS, st.sampled_from(SECTIONS))
def test_empty_sections_never_crash_a_check(facts: Snapshot, section: str) -> None:
    empty = get_args(get_type_hints(Snapshot)[section])[0]()
    case = Case(facts=msgspec.structs.replace(facts, **{section: empty}), catalog=CATALOG)
    for finding in judge(case, [CHECKS[name] for name in EVERY]):
        assert "the check itself failed" not in finding.title, finding


TEXT = st.one_of(st.text(max_size=30), st.sampled_from(["$(reboot)", "a'; rm -rf /", "\x1b[31m"]))


@given(TEXT, TEXT)
def test_hostile_texts_stay_data(version: str, path: str) -> None:
    facts = packages(
        healthy(),
        dist("torch", version),
        dist("torch-npu", version, requires=(path, f"torch=={version}")),
        dist("mcore-bridge", version, requires=(path,), requires_python=path),
        dist("triton-ascend", version),
        dist("triton", version),
        dist("ms-swift", version),
        dist("vllm-ascend", version),
    )
    facts = having(facts, "driver", version=version)
    facts = having(facts, "python", version=version, executable=path)
    assert facts.cann is not None
    broken = msgspec.structs.replace(facts.cann.installs[0], version=version, set_env=path)
    facts = having(facts, "cann", installs=(broken,))
    facts = shell(facts, home=path, stale=(path,))
    name = ImportName(
        name="megatron",
        copies=(copy(path, path, "core", core=version), copy("/b", "/b", "training")),
    )
    facts = having(facts, "import_path", names=(name,), pythonpath=(path, ""), absent=(path,))
    for finding in judge(Case(facts=facts, catalog=CATALOG), [CHECKS[name] for name in MINE]):
        assert "the check itself failed" not in finding.title, finding
        for command in finding.remedy.commands if finding.remedy else ():
            # A command quotes hostile text as one word.
            if "$(reboot)" in command:
                assert re.search(r"'[^']*\$\(reboot\)[^']*'", command), command


def test_the_explanation_is_prose() -> None:
    for identity in EVERY:
        explain = CHECKS[identity].explain
        assert len(explain) > 60, identity
        assert explain.rstrip().endswith("."), identity
        assert not re.search(r"\b(Unknown|NotApplicable|Snapshot|Case)\b", explain), identity
