import json
import random
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.diagnosis.attempts import split_attempts
from ascend_doctor.diagnosis.job import JobOptions
from ascend_doctor.diagnosis.logs import Log, find
from ascend_doctor.errors import DataError
from tests.diagnosis.faults import FaultHistory, InjectedFault, compose, judge, judge_history, load
from tests.diagnosis.logs import catalog, of_files, of_text, reader

TABLE = load()
FAULTS = (*TABLE.pool, *TABLE.more)
ECC = "RuntimeError: NPU function error: HBM MULTI BIT ECC ERROR, error code is 507054"


@pytest.mark.slow
def test_the_table_is_as_long_as_the_pool_of_the_extension() -> None:
    assert len(TABLE.pool) == 34
    assert sum(judge(fault).action == fault.verdict for fault in TABLE.pool) >= 32


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_an_injected_fault_has_its_verdict(fault: InjectedFault) -> None:
    verdict = judge(fault)
    assert verdict.action == fault.verdict, verdict.reason
    assert verdict.nodes == fault.exclude
    assert verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("history", TABLE.history, ids=lambda history: history.id)
def test_several_attempts_have_their_verdict(history: FaultHistory) -> None:
    verdict = judge_history(history)
    assert verdict.action == history.verdict, verdict.reason
    assert verdict.nodes == history.exclude
    assert [attempt.step for attempt in verdict.attempts] == [
        step - 1 for step in history.steps[:-1]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_node_is_excluded_that_the_cause_does_not_name(seed: int) -> None:
    """Any failure of the catalogue on one rank of four nodes, the others waiting or silent."""
    chance = random.Random(seed)
    harmful = [failure for failure in catalog().failures.values() if failure.severity == "fatal"]
    for failure in chance.sample(harmful, 8):
        rank = chance.randrange(16)
        others = chance.choice(["watchdog", "notify", "reset", "closed", "connect"])
        fault = InjectedFault(
            id=failure.id,
            fault="",
            nodes=4,
            verdict="unknown",
            rank=rank,
            says=(failure.example,),
            others=others,  # type: ignore[arg-type]
            ends=1,
        )
        # syslog and Slurm lines name their node.
        named = {f"node-{rank // 4}", *failure.example.split()}
        assert set(judge(fault).nodes) <= named, failure.id


def test_a_defect_that_every_node_shows_excludes_none() -> None:
    lines = "\n".join(f"[default{number}]:[rank{{}}]: {ECC}" for number in range(1))
    verdict = of_files(
        {f"node-{node}/train.log": lines.format(node) + "\n" for node in range(2)}
    ).verdict
    assert verdict
    assert (verdict.action, verdict.nodes) == ("unknown", ())
    assert "every node shows it" in verdict.reason


def test_a_node_without_a_name_is_not_guessed(tmp_path: Path) -> None:
    verdict = of_text(f"[rank0]: {ECC}\n").verdict
    assert verdict
    assert (verdict.action, verdict.fault) == ("unknown", "hardware")
    assert "--nodes" in verdict.reason
    (tmp_path / "train.log").write_text(
        f"using world size: 16, data-parallel size: 16\n[rank9]: {ECC}\n[rank0]: iteration\n"
    )
    named, _ = find((str(tmp_path),))
    several = reader(JobOptions(nodes=("atlas-07", "atlas-12"))).diagnose(named).verdict
    assert several
    assert several.nodes == ("atlas-12",)
    alone = reader(JobOptions(nodes=("atlas-07",))).diagnose(named).verdict
    assert alone
    assert alone.nodes == ("atlas-07",)
    uneven = reader(JobOptions(nodes=("a", "b", "c"))).diagnose(named).verdict
    assert uneven
    assert uneven.action == "unknown"


@pytest.mark.parametrize(
    ("paths", "attempts"),
    [
        (["run/attempt_0/0/stderr.log", "run/attempt_1/0/stderr.log"], ["attempt_0", "attempt_1"]),
        (["slurm-9.out", "slurm-10.out"], ["slurm-9.out", "slurm-10.out"]),
        (["retry2/a.log", "retry10/a.log", "retry2/b.log"], ["retry2", "retry10"]),
        (["run/attempt_0/0/stderr.log", "run/attempt_0/1/stderr.log"], [""]),
        # Whose log is the second?
        (["slurm-9.out", "train.log", "slurm-10.out"], [""]),
        (["restart-1/a.log", "slurm-10.out"], [""]),
        (["train.log"], [""]),
    ],
)
def test_attempts_in_one_folder_are_told_apart(paths: list[str], attempts: list[str]) -> None:
    logs = [Log(name=path, path=path) for path in paths]
    split = split_attempts(logs)
    assert [name for name, _ in split] == [name.removesuffix(".out") for name in attempts]
    assert sorted(log.name for _, part in split for log in part) == sorted(paths)


def test_an_attempt_is_not_mixed_with_those_before() -> None:
    files = {
        "run/attempt_0/3/stderr.log": f"[rank3]: {ECC}\n",
        "run/attempt_0/0/stderr.log": "iteration        7/     100 | lm loss: 2.3\n",
        "run/attempt_1/0/stderr.log": "[rank0]: ValueError: sample 7 has no label\n",
    }
    diagnosis = of_files(files)
    assert not diagnosis.causes
    assert diagnosis.attempt == "attempt_1"
    assert diagnosis.verdict
    assert diagnosis.verdict.action == "stop"
    (before,) = diagnosis.verdict.attempts
    assert (before.failure, before.step) == ("hbm-ecc-error", 7)


def test_an_attempt_that_has_only_begun_is_not_the_last() -> None:
    files = {"attempt_0/0/stderr.log": "[rank0]: ValueError: x\n", "attempt_1/0/stderr.log": ""}
    diagnosis = of_files(files)
    assert diagnosis.attempt == "attempt_0"
    assert diagnosis.verdict
    assert diagnosis.verdict.attempts == ()


def test_a_history_of_diagnoses(tmp_path: Path) -> None:
    hang = next(fault for fault in TABLE.pool if fault.id == "gpu-sleep-15-of-4")
    earlier = of_files(compose(hang))
    history = tmp_path / "history"
    history.mkdir()
    changed = json.loads(msgspec.json.encode(earlier))
    changed["bytes"] += 1
    (history / "1.json").write_text(json.dumps(changed))
    logs = tmp_path / "logs"
    for name, text in compose(hang, step=9).items():
        (logs / name).parent.mkdir(parents=True)
        (logs / name).write_text(text)
    named, _ = find((str(logs),))
    options = JobOptions(history=(str(history),))
    verdict = reader(options).diagnose(named).verdict
    assert verdict
    assert (verdict.action, verdict.nodes) == ("exclude", ("node-3",))
    # The same logs are no second attempt.
    (history / "1.json").write_bytes(msgspec.json.encode(reader(JobOptions()).diagnose(named)))
    verdict = reader(options).diagnose(named).verdict
    assert verdict
    assert (verdict.action, verdict.attempts) == ("restart", ())


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind": "report"}', "\0"])
def test_a_history_that_is_none_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.json").write_text(text)
    (tmp_path / "train.log").write_text("ValueError: x\n")
    named, _ = find((str(tmp_path / "train.log"),))
    for path in (tmp_path, tmp_path / "1.json", tmp_path / "none.json"):
        with pytest.raises(DataError, match=r"--history .*json"):
            reader(JobOptions(history=(str(path),))).diagnose(named)


def test_with_names_of_nodes_no_other_name_is_given(tmp_path: Path) -> None:
    (tmp_path / "atlas-07.log").write_text(f"[rank1]: {ECC}\n")
    (tmp_path / "atlas-12.log").write_text("[rank9]: iteration\n")
    named, _ = find((str(tmp_path),))
    verdict = reader(JobOptions(nodes=("atlas-07", "atlas-12"))).diagnose(named).verdict
    assert verdict
    assert verdict.nodes == ("atlas-07",)
    fault = next(fault for fault in TABLE.more if fault.id == "uce")
    for name, text in compose(fault).items():
        (tmp_path / "logs" / name).parent.mkdir(parents=True)
        (tmp_path / "logs" / name).write_text(text)
    named, _ = find((str(tmp_path / "logs"),))
    strangers = tuple(f"atlas-{number}" for number in range(4))
    verdict = reader(JobOptions(nodes=strangers)).diagnose(named).verdict
    assert verdict
    assert verdict.action == "unknown"
    full = tuple(f"node-{number}.site" for number in range(4))
    verdict = reader(JobOptions(nodes=full)).diagnose(named).verdict
    assert verdict
    assert verdict.nodes == ("node-2.site",)


CARD = """	NPU ID                         : {number}
	Product Name                   : IT21HMDA
	Serial Number                  : {serial}
	Chip Count                     : {chips}
"""


@pytest.mark.parametrize(("chips", "serials"), [(1, ("SN0000000001",)), (2, ())])
def test_the_serial_number_of_the_card_is_told(chips: int, serials: tuple[str, ...]) -> None:
    cards = "".join(
        CARD.format(number=number, serial=f"SN000000000{number}", chips=chips)
        for number in range(2)
    )
    line = f"[ERROR] 2026-11-23-11:41:24 (PID:3284, Device:1, RankID:5) {ECC}\n"
    files = {"node-1/train.log": line, "node-1/npu-smi.txt": cards, "node-0/npu-smi.txt": cards}
    guilty = of_files(files).guilty
    assert guilty
    assert (guilty.devices, guilty.serials) == ((1,), serials)
    # What is beside a tree of CANN's logs is of its node, whatever its name.
    tree = "log/debug/plog/plog-3284_20261123114100.log"
    trees = {f"lion/{tree}": line, f"owl/{tree}": "", "lion/npu-smi.txt": cards}
    beside = of_files(trees).guilty
    assert beside
    assert (beside.nodes, beside.serials) == (("lion",), serials)
    # Another node's cards say nothing.
    del files["node-1/npu-smi.txt"]
    alone = of_files(files).guilty
    assert alone
    assert alone.serials == ()


def test_an_own_answer_is_no_evidence() -> None:
    answer = "ascend-doctor 0.1.0 · 1 log · 2 lines\nNPU out of memory\n\n✗ known failure · 0.1 s\n"
    seen = of_text(f"starts\n{answer}EI0006: getting socket times out\n")
    assert seen.causes[0].evidence[0].line == 6
    assert len(seen.causes) == 1
