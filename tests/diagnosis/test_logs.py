import bz2
import gzip
import importlib
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.diagnosis.logs import _wide, find, is_log, origin
from ascend_doctor.diagnosis.origins import Origin, moment, split_prefixes
from ascend_doctor.diagnosis.packed import BLOCK
from ascend_doctor.diagnosis.records import record
from ascend_doctor.errors import DataError
from tests.diagnosis.logs import answer, guilty_of, of_files, of_paths, of_text

OOM = "RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60.97 GiB total capacity"
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
LINES = "".join(f"iteration {n}/ 100 | lm loss: 2.3\n" for n in range(1000))
LOG = f"{LINES}{OOM}\n{LINES}"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": importlib.import_module(_ZSTD).compress,
}


@pytest.mark.parametrize("kind", sorted(PACK))
def test_packed_logs_are_read(kind: str) -> None:
    diagnosis = of_files({f"train.log.{kind}": PACK[kind](LOG.encode())})
    assert answer(diagnosis) == "npu-oom-torch"
    assert diagnosis.causes[0].evidence[0].line == 1001
    assert diagnosis.lines == 2001


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gz", "xz", "bz2"])
def test_a_packed_log_that_was_cut_is_read_as_far_as_it_goes(kind: str) -> None:
    noise = "".join(f"{n} {n * 7919 % 10007:x}\n" for n in range(200_000))
    packed = PACK[kind]((f"{OOM}\n{noise}").encode())
    diagnosis = of_files({f"train.log.{kind}": packed[: len(packed) * 3 // 4]})
    assert next(unread.reason for unread in diagnosis.not_read).startswith("not read to its end")
    if kind == "gz":
        assert answer(diagnosis) == "npu-oom-torch"


def test_two_zstd_frames_are_both_read() -> None:
    pack = PACK["zst"]
    diagnosis = of_files({"a.log.zst": pack(LINES.encode()) + pack(LOG.encode())})
    assert answer(diagnosis) == "npu-oom-torch"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "gb18030", "latin-1"])
def test_encodings_are_told_apart(encoding: str) -> None:
    text = LOG if encoding == "latin-1" else f"训练开始\n{LOG}"
    diagnosis = of_text(text.encode(encoding))
    assert answer(diagnosis) == "npu-oom-torch"


def test_chinese_text_of_either_encoding_is_shown() -> None:
    line = "ValueError: 数据集为空"
    for encoding in ("utf-8", "gb18030"):
        diagnosis = of_text(f"Traceback (most recent call last):\n{line}\n".encode(encoding))
        assert diagnosis.unexplained[0].evidence.text == line


@pytest.mark.parametrize(
    "log",
    [
        f"\x1b[31m[rank3]:\x1b[0m \x1b[1;31mRuntimeError: NPU out of\x1b[0m{OOM[24:]}\n",
        f"Train:  3%|#   | 3/100 [00:01]\rTrain:  4%|#   | 4/100 [00:02]\r[rank3]: {OOM}\n",
        f"Train:  3%|#   | 3/100 [00:01]\r[rank3]: {OOM}\rTrain:  4%|#   | 4/100 [00:02]\n",
        f"(WorkerDict pid=7, ip=10.0.0.1) \x1b[36m[rank3]: {OOM}\x1b[0m [repeated 6x]\n",
        f"[pod/job-worker-1/trainer] 2026-03-01T10:00:00.123456789Z [rank3]: {OOM}\n",
        f"2026-03-01T10:00:00.123456789Z stderr F [rank3]: {OOM}\n",
        f"[rank3]: ERROR 01-02 10:00:00 [worker.py:7] {OOM}\n",
        f"worker-1: [rank3]: {OOM}\r\n",
    ],
)
def test_prefixes_colours_and_progress_bars_are_seen_through(log: str) -> None:
    diagnosis = of_text(f"{LINES}{log}{LINES}")
    assert answer(diagnosis) == "npu-oom-torch"
    (shown,) = diagnosis.causes[0].evidence
    assert shown.rank == 3
    assert shown.line == 1001
    assert shown.text.startswith("RuntimeError: NPU out of memory")
    assert guilty_of(diagnosis).ranks == (3,)


def test_tracebacks_that_are_interleaved_are_told_apart() -> None:
    rows = []
    for part in ("Traceback (most recent call last):", '  File "t.py", line 1', "{}: {}"):
        for rank, error in ((0, "KeyError"), (1, "ValueError")):
            rows.append(f"[rank{rank}]: " + part.format(error, "x"))
    diagnosis = of_text("\n".join(rows))
    errors = {(row.evidence.rank, row.evidence.text) for row in diagnosis.unexplained}
    assert errors == {(0, "KeyError: x"), (1, "ValueError: x")}


def test_the_innermost_exception_of_a_chain_comes_first() -> None:
    log = (
        "Traceback (most recent call last):\nKeyError: 'label'\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\nRuntimeError: batch 7 failed\n"
    )
    diagnosis = of_text(log)
    assert diagnosis.outcome == "unknown error"
    assert diagnosis.exit_code == 3
    assert [unexplained.evidence.text for unexplained in diagnosis.unexplained] == [
        "KeyError: 'label'",
        "RuntimeError: batch 7 failed",
    ]
    assert diagnosis.first_error
    assert diagnosis.first_error.line == 2


def test_codes_have_their_documented_meaning_in_both_forms() -> None:
    diagnosis = of_text(
        "[PID: 1] 2026-01-01-01:01:01.000.001 Invalid_Argument(EE1001): The argument is invalid.\n"
        "EE1003: [PID: 1] value is wrong\n"
        "RuntimeError: aclrtPointerGetAttributes, error code is 107000\n"
    )
    meanings = {code.code: code.meaning for code in diagnosis.codes}
    assert meanings["107000"] == "param invalid"
    assert "EE1001" in meanings
    assert meanings["EE1003"].startswith("Invalid Argument")


def test_folders_of_torchrun_and_cann_name_ranks_and_processes() -> None:
    diagnosis = of_files(
        {
            "run/attempt_0/0/stdout.log": LINES,
            "run/attempt_0/3/stderr.log": f"{LINES}{OOM}\n",
            "run/attempt_0/3/error.json": '{"message": "x"}',
            "ascend/log/debug/plog/plog-4242_20260301.log": (
                "[ERROR] HCCL(4242,python):2026-03-01-10:00:00.1 wait socket establish timeout,"
                " role[0] rank[0] timeout[120 s]\n"
            ),
            "run/model.safetensors": "EI0006: no log",
            "core.4242": b"\x7fELF" + b"\0" * 5000,
        }
    )
    assert answer(diagnosis) == "npu-oom-torch"
    assert guilty_of(diagnosis).ranks == (3,)
    assert diagnosis.logs == 5
    assert sorted(Path(unread.name).name for unread in diagnosis.not_read) == [
        "core.4242",
        "model.safetensors",
    ]
    assert [consequence.id for consequence in diagnosis.causes[0].consequences] == [
        "hccl-connect-timeout-ei0006"
    ]


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("train.log", True),
        ("train.log.1", True),
        ("train.log-20260301.gz", True),
        ("slurm-12.out", True),
        ("nohup.out", True),
        ("stderr.log", True),
        ("plog-12_2026.log", True),
        ("error.json", True),
        ("journal-node1.json", True),
        ("train", True),
        ("config.json", False),
        ("pretrain.py", False),
        ("model.pt", False),
        ("loss.png", False),
    ],
)
def test_logs_are_known_by_their_names(name: str, *, log: bool) -> None:
    assert is_log(name) is log


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        find((str(tmp_path / "x.log"),))
    with pytest.raises(DataError, match="no logs"):
        find((str(tmp_path),))


def test_lines_are_whole_where_blocks_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for shift in range(0, len(OOM) + 2, 7):
        path.write_text("x" * 99 + "\n" + "y" * (BLOCK - 101 - shift) + "\n" + OOM + "\n" + LINES)
        diagnosis = of_paths(path)
        assert answer(diagnosis) == "npu-oom-torch"
        assert diagnosis.causes[0].evidence[0].line == 3


@pytest.mark.parametrize(
    ("text", "known", "rest"),
    [
        ("[rank12]: a", Origin(rank=12), "a"),
        ("[default2]: a", Origin(local=2), "a"),
        ("[default2]:[rank10]: a", Origin(rank=10, local=2), "a"),
        (
            "(RayWorkerWrapper pid=9, ip=10.0.0.5) a",
            Origin(node="10.0.0.5", process="RayWorkerWrapper pid=9", launcher="10.0.0.5"),
            "a",
        ),
        ("(pid=9) a", Origin(process="pid=9"), "a"),
        (
            "(VllmWorker rank=1 pid=7) ERROR 09-03 03:02:37 [m.py:5] a",
            Origin(rank=1, process="VllmWorker pid=7"),
            "a",
        ),
        ("[pod/w-3/c] a", Origin(node="w-3", launcher="w-3"), "a"),
        ("node-4: a", Origin(node="node-4", launcher="node-4"), "a"),
        ("trainer-1  | a", Origin(node="trainer-1", launcher="trainer-1"), "a"),
        (" 3: a", Origin(task=3, launcher="node_rank_3"), "a"),
        ("1: [default3]:a", Origin(task=1, local=3, launcher="node_rank_1"), "a"),
        ("1: [rank11]: a", Origin(rank=11, task=1, launcher="node_rank_1"), "a"),
        ("[2,5]<stdout>:a", Origin(rank=5), "a"),
        ("[prterun-a.b-77@1,5]<stderr>: a", Origin(rank=5), "a"),
        (
            "Mar  1 10:02:05 a-17 torchrun[42]: [default1]:b",
            Origin(node="a-17", local=1, launcher="a-17"),
            "b",
        ),
        ("Mar 01 10:02:05 a-17 kernel: b", Origin(node="a-17", launcher="a-17"), "b"),
        ("2026-03-01T10:02:05+0800 a-17 train[42]: b", Origin(node="a-17", launcher="a-17"), "b"),
        # Level and logger, no host and program.
        ("2026-03-01T10:02:05+08:00 INFO train: b", Origin(), "INFO train: b"),
        # In a process with its own number, a message's rank may be another's.
        ("[default2]:[Rank 7] watchdog", Origin(local=2), "[Rank 7] watchdog"),
        ("[default2]:Rank 13: found NaN", Origin(local=2), "Rank 13: found NaN"),
        (
            "[ERROR] 2026-01-01-01:01:01 (PID:9, Device:0, RankID:5) a",
            Origin(rank=5, process="pid 9"),
            None,
        ),
        ("[Rank 7] watchdog", Origin(rank=7), None),
        ("plain", Origin(), "plain"),
    ],
)
def test_origins(text: str, known: Origin, rest: str | None) -> None:
    origin, left = split_prefixes(text, Origin())
    assert origin == known
    assert left == (text if rest is None else rest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EI0006: 2024-08-05-18:15:21.000.000 x", "08-05 18:15:21"),
        ("2024-08-05 18:15:21,270 INFO", "08-05 18:15:21"),
        ("[E1212 12:10:10.000000000 x]", "12-12 12:10:10"),
        ("[rank0]:[W326 11:49:12.000000000 x", "03-26 11:49:12"),
        ("INFO 02-27 17:30:21 x", "02-27 17:30:21"),
        ("05/17/2024 01:30:26 - INFO", "05-17 01:30:26"),
        ("Mar  1 01:30:26 host kernel: x", "03-01 01:30:26"),
        ("no time", None),
        ("2024-99-99 99:99:99", None),
    ],
)
def test_time_stamps(text: str, expected: str | None) -> None:
    stamp = moment(text)
    assert (stamp and stamp.text) == expected


@given(st.text(max_size=300))
def test_any_line_has_an_origin_and_perhaps_a_time(text: str) -> None:
    split_prefixes(text, Origin())
    moment(text)


SAMPLES = Path(__file__).parent.parent / "samples"


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("hccl/err-EE2002-visible-devices-duplicate.txt", "visible-devices-out-of-range"),
        ("hccl/err-EI0001-env-value.txt", "hccl-env-invalid-ei0001"),
        ("hccl/err-EI0004-ranktable-path.txt", "hccl-ranktable-load-ei0004"),
        ("hccl/err-EI0014-ranktable-ip-mismatch.txt", "hccl-ranktable-ip-mismatch"),
        ("hccl/err-EI0016-tls-mismatch.txt", "hccl-tls-mismatch-ei0016"),
        ("hccl/hccl_test-success.txt", "none"),
        ("hccl/hccl_test-128-ranks-1GiB.txt", "none"),
        ("npu-smi/err-dcmi-8020-card-in-other-container.txt", "npu-smi-dcmi-init-8005"),
        ("torch_npu/err-import-torch-no-cann.txt", "cann-libhccl-not-found"),
        ("torch_npu/err-set_device-invalid-compact.txt", "set-device-107001"),
        ("torch_npu/err-set_device-invalid-verbose.txt", "set-device-107001"),
    ],
)
def test_output_of_real_tools(name: str, root: str) -> None:
    assert answer(of_paths(SAMPLES / name)) == root


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("a/run/attempt_0/12/stderr.log", Origin(local=12, launcher="a/run")),
        ("node-3/run/attempt_1/2/stdout.log", Origin(local=2, node="node-3", launcher="node-3")),
        ("logs/node-3/rank_7.log", Origin(rank=7, node="node-3", launcher="node-3")),
        ("logs/node3.log", Origin(node="node3", launcher="node3")),
        ("logs/node_rank_1.log", Origin(launcher="node_rank_1")),
        ("logs/local_rank_5.log", Origin(local=5, launcher="logs")),
        ("l/train.log.2.gz", Origin(launcher="l/train")),
        ("l/stderr.log", Origin(launcher="l/")),
        ("node-1.tar.gz/train-1.log", Origin(node="node-1", launcher="node-1")),
        (
            "session/logs/worker-0a1b-01000000-4242.err",
            Origin(process="pid 4242", launcher="session/logs/worker-0a1b-01000000-4242"),
        ),
        (
            "debug/plog/plog-4242_2026.log",
            Origin(process="pid 4242", launcher="debug/plog/plog-4242_2026"),
        ),
        (
            "debug/device-3/device-4242_2026.log",
            Origin(process="pid 4242", launcher="debug/device-3/device-4242_2026", device=3),
        ),
        (
            "/var/log/pods/ml_job-worker-1_0a-1b/trainer/0.log",
            Origin(node="job-worker-1", launcher="job-worker-1"),
        ),
    ],
)
def test_paths_name_who_wrote(path: str, known: Origin) -> None:
    parsed = origin(path)
    assert parsed == known
    assert parsed.device == known.device


@pytest.mark.parametrize(
    ("name", "rank"), [("worker_3.log", 3), ("log/worker_12.log.1", 12), ("worker_x.log", None)]
)
def test_msrun_s_logs_are_named_by_ranks(name: str, rank: int | None) -> None:
    assert origin(name).rank == rank


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("(Worker_TP7 pid=1) ", 7),
        ("(Worker_DP0_TP3_EP3 pid=1) ", 3),
        ("(Worker_PP0_TP1 pid=1) ", 1),
        # The first engine's rank count is not known.
        ("(Worker_DP1_TP3 pid=1) ", None),
        ("(EngineCore_DP0 pid=1) ", None),
    ],
)
def test_vllm_s_workers_are_ranks_where_they_are_the_first(prefix: str, rank: int | None) -> None:
    assert split_prefixes(f"{prefix}INFO x", Origin())[0].rank == rank


def test_a_plog_gets_the_rank_that_its_process_was_given_elsewhere() -> None:
    agent = (
        "[INFO] HCCL({pid},python3):2026-01-02-10:00:00.000.000 [topoinfo_detect.cc:7] [{pid}]"
        "SetupAgent rankNum[4], rank[{rank}], server[x], logicDevId[0], phydevId[{rank}]"
    )
    files = {
        f"node-1/run/plog/plog-{pid}_1.log": agent.format(pid=pid, rank=pid - 70) + "\n"
        for pid in (70, 71, 72, 73)
    }
    files["node-1/debug/plog/plog-72_2.log"] = "[ERROR] RUNTIME(72,python3):something failed\n"
    diagnosis = of_files(files)
    assert diagnosis.unexplained[0].evidence.rank == 2
    assert diagnosis.ranks == (0, 1, 2, 3)


def test_a_record_says_who_wrote_it_and_every_line_of_what_it_says() -> None:
    fields = {
        "level": "error",
        "rank": "3",
        "hostname": "a-17",
        "msg": "first\nsecond",
        "exc_info": "Traceback (most recent call last):\nKeyError: 'x'",
    }
    json_record = record(json.dumps(fields), Origin())
    assert json_record
    assert json_record.origin == Origin(rank=3, node="a-17")
    assert json_record.lines[1:] == (
        "second",
        "Traceback (most recent call last):",
        "KeyError: 'x'",
    )


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '{"a": 1}', '{"msg": 1}', "{'loss': 0.0}"])
def test_what_is_no_record_is_a_line(text: str) -> None:
    assert record(text, Origin()) is None


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["log", "MESSAGE", "rank", "local_rank", "_PID", "host", "level", "error"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_any_record_is_read(fields: dict[str, object]) -> None:
    record(json.dumps(fields), Origin())


def test_a_level_of_a_record_counts_as_that_of_a_line() -> None:
    for level, outcome in (("error", "unknown error"), ("info", "could not tell")):
        diagnosis = of_text(json.dumps({"level": level, "rank": 3, "msg": "ERROR: cannot"}) + "\n")
        assert diagnosis.outcome == outcome
    diagnosis = of_text('{"level":"error","rank":3,"msg":"step failed"}\n')
    assert diagnosis.unexplained[0].evidence.rank == 3
    assert diagnosis.unexplained[0].evidence.text == "step failed"


def test_a_field_of_a_record_that_is_not_looked_at_is_not_lost() -> None:
    fields = {"msg": "step failed", "rank": 3, "cause": {"text": OOM}}
    diagnosis = of_text(json.dumps(fields) + "\n")
    assert answer(diagnosis) == "npu-oom-torch"
    assert diagnosis.causes[0].ranks == (3,)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("a line of a log\n".encode("utf-16-le"), "utf-16-le"),
        ("a line of a log\n".encode("utf-16-be"), "utf-16-be"),
        ("一二三 one line of a log 一\n".encode("utf-16-le"), "utf-16-le"),
        ("训练开始\n".encode(), ""),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 99 + b"abc", ""),
        (b"plain\n", ""),
        (b"", ""),
    ],
)
def test_utf_16_is_known_without_a_mark(head: bytes, encoding: str) -> None:
    assert _wide(head) == encoding


@pytest.mark.slow
def test_a_known_cause_behind_thousands_of_other_exceptions_is_seen() -> None:
    noise = "".join(f"RuntimeError: something {number} broke\n" for number in range(6000))
    diagnosis = of_text(noise + "[rank3]: EI0006: Getting socket times out. Reason: x\n" + noise)
    assert [cause.id for cause in diagnosis.causes] == ["hccl-connect-timeout-ei0006"]
