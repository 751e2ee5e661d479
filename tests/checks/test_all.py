import random
import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_doctor.facts
from ascend_doctor.collect.snapshot import take
from ascend_doctor.facts import Library, Snapshot
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case, judge
from tests.checks.machine import CATALOG, CHECKS, having, healthy, run, without
from tests.checks.server import LIBRARIES, a2, a3, inside, node
from tests.level0.mutants import breakages

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


TEXTS = ("$(reboot)", "a'; rm -rf /", "\x1b[31m\n", "\N{SUPERSCRIPT TWO}", "")
FIELDS = sorted(
    {
        field.name
        for struct in vars(ascend_doctor.facts).values()
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct)
        for field in msgspec.structs.fields(struct)
        if "str" in str(field.type)
    }
)


def planted(value: Any, text: str, fields: set[str], *, whole: bool, field: str = "") -> Any:
    """The text in place of every text of these fields, or behind it."""
    match value:
        case str() if field in fields:
            return text if whole else value + text
        case tuple():
            return tuple(planted(each, text, fields, whole=whole, field=field) for each in value)
        case dict():
            items = value.items()
            return {
                key: planted(each, text, fields, whole=whole, field=field) for key, each in items
            }
        case msgspec.Struct():
            new = {
                name: planted(getattr(value, name), text, fields, whole=whole, field=name)
                for name in value.__struct_fields__
            }
            return msgspec.structs.replace(value, **new)
    return value


def trials() -> Iterator[Snapshot]:
    """Single fields of whole machines, and many of broken ones."""
    chance = random.Random(7)
    libraries = tuple(Library(name=name) for name in LIBRARIES)
    nodes = (node("/dev/davinci0", 0, readable=False),)
    closed = having(inside(a2()), "driver", nodes=nodes, libraries=libraries)
    for facts in (SERVER, closed):
        yield from (planted(facts, TEXTS[0], {field}, whole=False) for field in FIELDS)
    for broken in breakages():
        facts = take(broken.machine(), CATALOG)
        for text in (TEXTS[0], chance.choice(TEXTS)):
            share = chance.choice((0.05, 0.5))
            fields = {field for field in FIELDS if chance.random() < share}
            yield planted(facts, text, fields, whole=chance.random() < share)


def test_hostile_texts_stay_data() -> None:
    for facts in trials():
        for finding in judge(Case(facts=facts, catalog=CATALOG), [CHECKS[name] for name in EVERY]):
            assert "the check itself failed" not in finding.title, finding
            for command in finding.remedy.commands if finding.remedy else ():
                # A command quotes hostile text as one word.
                if "$(reboot)" in command and not command.startswith("cat <<'EOF'"):
                    assert re.search(r"'[^']*\$\(reboot\)[^']*'", command), command


def test_the_explanation_is_prose() -> None:
    for identity in EVERY:
        explain = CHECKS[identity].explain
        assert len(explain) > 60, identity
        assert explain.rstrip().endswith("."), identity
        assert not re.search(r"\b(Unknown|NotApplicable|Snapshot|Case)\b", explain), identity
