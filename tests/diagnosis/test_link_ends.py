"""The ends of HCCL's link set-up: four ranks on two nodes, in forms of plogs."""

from collections.abc import Mapping

import pytest

from ascend_doctor.diagnosis.result import Diagnosis
from tests.diagnosis.logs import guilty_of, of_files

GROUP = "192.0.2.1%eth0_60000_0_1767348000000000"
Lines = Mapping[int, str]


def line(rank: int, text: str, *, at: int, level: str = "ERROR") -> str:
    clock = f"2026-03-01-10:{at // 60:02}:{at % 60:02}.000.000"
    return f"[{level}] HCCL({100 + rank},python3):{clock} [a.cc:1] [{100 + rank}]{text}\n"


def enter(rank: int, *, at: int = 0, nic: str = "eth0", card: int | None = None) -> str:
    device = rank % 2 if card is None else card
    entry = f"Entry-HcclCommInitRootInfoInner:ranks[4], rank[{rank}], rootinfo: host ip[192.0.2.1]"
    agent = f"[HCCL_TRACE][Flat]SetupAgent rankNum[4], rank[{rank}], rootInfo identifier[{GROUP}],"
    agent += f" server[192.0.2.{rank // 2}%{nic}], logicDevId[{device}], phydevId[{device}],"
    entry += f" port[60000] nicDeploy[1] identifier[{GROUP}], deviceLogicId[{device}]"
    agent += f" deviceIp[198.51.100.{rank}]"
    return "".join(line(rank, text, at=at, level="INFO") for text in (entry, agent))


def lack(rank: int, *missing: int) -> str:
    listed = "".join(f"{number}," for number in missing)
    text = f'TopoDetect ERROR occur fault_type[1], fault_info["Failed to connect agent[{listed}]"]'
    return line(rank, text, at=121)


def count(*connected: int) -> str:
    ranks = ",".join(f"[{number:016}]" for number in connected)
    texts = ("topo exchange server get socket timeout! timeout[120 s]",
             f"[DisplayConnectedRank]connected rankinfo[LINE 0]: {ranks};")  # fmt: skip
    return "".join(line(0, text, at=120) for text in texts)


def wait(rank: int, *peers: int, at: int = 130, operator: str = "AllReduce", tls: str = "") -> str:
    rows = ""
    for peer in peers:
        column = f"   {tls}  | LinkInfo" if tls else ""
        table = (
            f"   |  198.51.100.{peer}({peer})   |  16666  |   198.51.100.{rank}({rank})   |  0  |"
        )
        link = f"rank[{rank}]-localUserrank[{rank}]-localIpAddr[192.0.2.{rank // 2}/{rank % 2}],"
        link += f" remoteRank[{peer}]-remoteUserrank[{peer}]-remoteIpAddr[192.0.2.{peer // 2}/"
        rows += line(rank, f"[Wait]wait socket establish timeout, role[1] rank[{rank}]", at=at)
        rows += line(rank, f"{table}  client  | time out |{column}", at=at)
        tag = f"tag[{operator}_{GROUP}]"
        text = f"[Timeout]Transport init error! createLink para:{link}{peer % 2}], {tag}"
        rows += line(rank, text, at=at)
    return rows


def check(rank: int, peer: int, name: str, own: object, theirs: object) -> str:
    text = f"CMD information {name} check fail. local[{own}], remote[{theirs}]"
    return line(rank, text, at=6) + wait(rank, peer, at=6).splitlines()[-1] + "\n"


def fail(rank: int, *, operator: str = "AllReduce", number: int = 256) -> str:
    head = "[TaskExecStage][Timeout][Host]Task run failed, "
    texts = (
        f"base information is streamID:[2], taskID[21], tag[{operator}_{GROUP}], AlgType:[ring].",
        f"groupRank information is group:[{GROUP}], rankSize[4], rankId[{rank}].",
        f"opData information is timeStamp:[0], deviceId[0], index[7], count[{number}], src[0x0].",
    )
    return "".join(line(rank, head + text, at=1900) for text in texts)


def diagnose(lines: Lines, entered: Lines | None = None) -> Diagnosis:
    files: dict[str, str | bytes] = {}
    entries = {rank: enter(rank) for rank in range(4)} | dict(entered or {})
    for kind, texts in (("debug", lines), ("run", entries)):
        for rank, text in texts.items():
            name = f"plog-{100 + rank}_20260301100000000.log"
            files[f"node-{rank // 2}/{kind}/plog/{name}"] = text
    return of_files(files)


RUNTIME = f"[ERROR] RUNTIME(101,python3):{line(1, '', at=60)[22:46]} [a.cc:1] StreamCreate failed\n"
MISSES_1 = {0: count(0, 2, 3), 2: lack(2, 1), 3: lack(3, 1)}
MISSES_NODE = {0: count(0, 1), 1: lack(1, 2, 3)}
RUNS = {0: "", 1: line(1, "started", at=0, level="INFO")}
LISTS = (
    'Value Disable for config "tls" is invalid. Expected: "'
    "rankList for enabled tls: [192.0.2.0/0,1,2]; "
    "rankList for disabled tls:[192.0.2.1/3]; rankList for query failure tls:N/A."
)
IPV6 = {3: enter(3).replace("198.51.100.3", "2001:db8::3")}
BUFFER = {2: "400", 3: "400"}
VARIABLES = {
    rank: line(rank, f"[HCCL_ENV] HCCL_BUFFSIZE set by default to [{BUFFER.get(rank, 200)}]M", at=0,
               level="INFO") + enter(rank) for rank in range(4)
}  # fmt: skip
MIXED = "[InitGroupStage][RanktableCheck]rank[3] device ip family[10] is not same as others[2]."
PORT = "socket type[0], listen on ip[198.51.100.1] and specific port[16666] fail."


@pytest.mark.parametrize(
    ("end", "ranks", "action", "lines", "entered"),
    [
        ("not-created", (1,), "restart", MISSES_1, RUNS),
        ("late", (1,), "restart", MISSES_1, {1: enter(1, at=300)}),
        ("late", (1,), "restart", {0: wait(0, 1), 1: wait(1, 0, 3, at=400), 3: wait(3, 1)}, {}),
        ("not-listening", (1,), "restart", {1: line(1, PORT, at=3), 0: wait(0, 1)}, {}),
        ("ended", (1,), "restart", MISSES_1 | {1: RUNTIME}, RUNS),
        ("other-card", (2, 3), "stop", MISSES_NODE, {n: enter(n, nic="docker0") for n in (2, 3)}),
        ("same-card", (0, 1), "stop", MISSES_1, {1: enter(1, card=0)}),
        ("tls", (3,), "stop", {0: line(0, f"[RanktableCheck] {LISTS}", at=2)}, {}),
        ("host-route", (2, 3), "restart", MISSES_NODE, {}),
        ("root-card", (0, 1), "stop", MISSES_NODE, {n: enter(n, nic="docker0") for n in (0, 1)}),
        ("family", (3,), "stop", {0: line(0, MIXED, at=3)}, IPV6),
        ("route", (1, 3), "restart", {1: wait(1, 3), 3: wait(3, 1)}, {}),
        ("card", (1,), "exclude", {0: wait(0, 1), 1: wait(1, 0, 3), 3: wait(3, 1)}, {}),
        ("operators", (1,), "stop", {n: fail(n, operator="Broadcast" if n == 1 else "AllReduce")
                                     for n in range(4)}, {}),
        ("operators", (1,), "stop", {0: wait(0, 1), 3: wait(3, 1),
                                     1: wait(1, 0, 3, operator="AllGather")}, {}),
        ("environment", (2, 3), "stop", {0: wait(0, 2), 2: wait(2, 0)}, VARIABLES),
        ("counts", (1,), "stop", {n: fail(n, number=255 if n == 1 else 256) for n in range(4)}, {}),
        ("counts", (1,), "stop", {0: check(0, 1, "count", 9, 8), 1: check(1, 3, "count", 8, 9)},
         {}),
    ],
)  # fmt: skip
def test_each_end_has_its_rank_its_facts_and_its_verdict(
    end: str, ranks: tuple[int, ...], action: str, lines: Lines, entered: Lines
) -> None:
    diagnosis = diagnose(lines, {rank: entered[rank] for rank in entered if entered[rank]})
    accused = guilty_of(diagnosis)
    assert (accused.end, accused.ranks) == (end, ranks), accused
    assert diagnosis.verdict
    assert diagnosis.verdict.action == action
    assert (diagnosis.causes[0].cause, diagnosis.causes[0].fix) == (accused.facts, accused.fix)
    assert set(accused.nodes) == {f"node-{rank // 2}" for rank in ranks}


def test_lists_that_contradict_each_other_are_never_sure() -> None:
    accused = guilty_of(diagnose(MISSES_1 | {3: lack(3, 2)}, {1: RUNS[1]}))
    assert (accused.ranks, accused.sure) == ((1,), False)
    assert guilty_of(diagnose(MISSES_1, {1: RUNS[1]})).sure


def test_a_peer_that_did_not_wait_itself_is_not_judged_by_its_variables() -> None:
    assert guilty_of(diagnose({0: wait(0, 2)}, VARIABLES)).end == ""
