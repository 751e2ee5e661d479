"""Lines that read like an error are never fine, and lines that only mention errors are."""

import json
from pathlib import Path

import pytest

from ascend_doctor.diagnosis import patterns
from ascend_doctor.diagnosis.job import JobReader
from ascend_doctor.diagnosis.logs import find
from tests.conftest import Command
from tests.diagnosis.logs import catalog, of_files, of_paths, of_text

STEP = "iteration 10/ 100 | lm loss: 2.3\n"
ERRORS = [
    "  Warning  ErrWorkloadCompose  9s   controller  'job-1' has fewer pods",
    "  Warning  SandboxFailure  3m (x2 over 4m)  kubelet  the sandbox is gone",
    "每次保存checkpoint后都会挂住",
    "E0102 10:00:00.000000 1001 torch/distributed/api.py:7] failed (exitcode: 1) local_rank: 0",
    "  exitcode  : 1 (pid: 1001)\n  exitcode  : -9 (pid: 1001)",
    "  traceback : Signal 9 (SIGKILL) received by PID 1001",
    "[E102 10:00:00.000000000 somewhere.cpp:7] it failed",
    "E0102 10:00:00.000000       1 plugins.go:7]    Failed to get it",
    "ERROR: it went wrong",
    "[ERROR] it went wrong",
    "2026-01-02 10:00:00,000 - trainer - ERROR - it failed",
    "2026-01-02 10:00:00.000 | ERROR    | __main__:main:7 | it failed",
    "ERROR 01-02 10:00:00 [worker.py:7] it failed",
    "2026-01-02 10:00:00,000 ERROR controller.py:7 -- it failed",
    '{"level":"error","msg":"it failed"}',
    "main.c:3:1: error: unknown type name 'flaot'",
    "error: Failed to fetch: `https://example.org`",
    "srun: error: node-1: task 3: Exited with exit code 1",
    "Killed",
    "Segmentation fault",
    "bash: line 4: start-job: command not found",
    "/bin/sh: 1: start-job: not found",
    "train-0   0/1   ImagePullBackOff   0   4s",
    "  Warning  Failed     12s   kubelet   Failed to pull image",
    "Error response from daemon: could not select device driver",
    "Exception: nobody knows",
    "Traceback (most recent call last):",
    "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 2.",
    "[launch.py:7:sigkill_handler] exits with return code = -9",
    "python: symbol lookup error: ./x.so: undefined symbol: f",
    "[ERROR] 2026-01-02-10:00:00 (PID:1001, Device:-1, RankID:-1) ERR99999 UNKNOWN applicaiton",
    "free(): invalid pointer",
    "panic: runtime error: index out of range",
    "thread 'main' panicked at src/main.rs:3:5:",
    "node-1:9:13 [4] a.c:7 NCCL WARN NET/IB : Got completion with status=12",
    "mpirun noticed that process rank 0 with PID 9 on node a exited on signal 6",
    "=   EXIT CODE: 9",
    "2026-01-02 10:00:00.0 [E:onnxruntime:Default, a.cc:7 Call] it failed",
    "[01/02/2026-10:00:00] [TRT] [E] 1: it failed",
    "requests.exceptions.ConnectTimeout: nobody answers",
    "!!! Exception during processing !!!",
    "ninja: build stopped: subcommand failed.",
    "Kernel runtime initialization failed.",
    "build graph failed, ret:4294967295",
    "[node-1:1001] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
    "step 10 of the build did not run successfully",
    '[rank8]:   File "/usr/lib/python3.10/contextlib.py", line 142, in __exit__',
    "Layer.forward() takes from 3 to 4 positional arguments but 5 were given",
    "Inference stopped: weights.bin does not exist",
    "train-0   0/1     ContainerStatusUnknown   0          20m",
    "Engine SIGSEGV on Ascend910 after the update",
    "启动训练仍然OOM",
    "推理出错",
    "aclrtMalloc returned 0x7020016",
    "rtMemcpy: ret=507777",
    "[1001.000000] ------------[ cut here ]------------",
    "| 0     910B3               | Alarm         | 90.0        40      |",
    "hydra.errors.Unsupported: it cannot be",
    "nf: Name or service not known",
    '{"detail":"Not Found"}',
    "        get count failed[FUNC:Report][FILE:a.cpp][LINE:7]",
]
HARMLESS = [
    "| Failed requests                   | 0                       |",
    "2026-01-02 10:00:00.000000: W /opt/job/a.ts:7] can not find variable : JOB_ID",
    "  Normal  Scheduled  14s  default-scheduler  Successfully assigned default/pod to node",
    "step 3: error_rate=0 errors=0",
    "12 passed, 0 failed, 0 errors in 3.1s",
    "Tests: 10, FAILED: 0",
    "validation error: 0.0312, loss: 0.7",
    "[INFO] ErrorHandler registered; undefined symbol: checks are off",
    "WARNING 01-02 10:00:00 ops.py:7] libx.so: cannot open shared object file",
    "export HYDRA_FULL_ERROR=1 VERL_LOGGING_LEVEL=ERROR",
    "log_level: ERROR",
    "#       size         count      type   redop     time   algbw   busbw  error",
    "exit code 0",
    "(APIServer pid=1) INFO:     Started server process [1]",
    "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    "trainer.client.timeout: 30",
    "0 of 12 requests failed",
    "no checks have failed",
    "INFO retried, for the first attempt failed",
    "data.client.Timeout: 600",
    'a:1:1 [0] NCCL WARN Missing "iommu=pt" from kernel command line',
    "10:00:00.000000: W tensorflow/x/a.cc:7] libx.so: cannot open shared object file",
    "x/image.py:13: UserWarning: Failed to load image Python extension: 'x'",
    "-- Looking for pthread_create - not found",
    "  exit_on_missing_checkpoint ...................... False",
    "missing keys: []",
    "path=/usr/local/Ascend/ascend-toolkit/8.1.RC1",
    "DDR Double Bit Error Count               : 0",
    "Error Code                     : NA",
    "unable to import apex, falling back to torch",
    "root@node-1:~# grep -i error train.log",
    "tests/test_x.py::test_fail_on_invalid PASSED",
    "未发现异常",
    "成功 10 失败 0",
    "We cannot divide by zero here.",
    "[INFO] the following were found:\n    [range check failed.] - 86",
    "(no failures)",
    "job.service: Launch of 8 tasks, 0 failed",
    "--dump_tabs=latency=*_latency*;error=*_error*",
    "x.c:10:3: note: expected 'int *' but argument is of type 'float *'",
    "W0102 10:00:00.000000 1001 a.cc:7] libx.so: cannot open shared object file",
]


@pytest.mark.parametrize("line", ERRORS)
def test_a_line_that_reads_like_an_error_is_not_fine(line: str) -> None:
    diagnosis = of_text(f"{STEP}{line}\n{STEP}")
    assert diagnosis.exit_code == 3
    assert diagnosis.outcome == "unknown error"
    assert not diagnosis.causes
    assert diagnosis.error_lines
    assert diagnosis.unexplained[0].evidence.text in line or line.startswith("[ERROR] 2026")


@pytest.mark.parametrize("prefix", ["[rank3]: ", "(Worker_TP0 pid=9) ", "[default2]:", "7: "])
def test_it_is_seen_behind_a_launcher_s_prefix(prefix: str) -> None:
    for line in ("ERROR: it went wrong", "Killed", "Segmentation fault"):
        assert of_text(f"{prefix}{line}\n").exit_code == 3


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_that_only_mentions_errors_is_fine(line: str) -> None:
    diagnosis = of_text(f"{STEP}{line}\n{STEP}")
    assert (diagnosis.exit_code, diagnosis.outcome) == (0, "nothing known found")


@pytest.mark.slow
def test_error_lines_are_counted_and_the_first_ones_shown(doctor: Command, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "ERROR: token=hf_abcdefghijklmnopqrst\nERROR: b\nERROR: b\n\x1b]0;x\x07ERROR: c\n"
    )
    done = doctor("diagnose", "--redact", str(log))
    assert "unknown: 4 error lines that the catalogue does not explain" in done.stdout
    assert "ERROR: b (2 lines)" in done.stdout
    assert "hf_abcdefghijklmnopqrst" not in done.stdout
    assert "\x1b]" not in done.stdout
    assert done.returncode == 3


def test_a_log_of_errors_only_is_counted_to_the_thousandth() -> None:
    diagnosis = of_text("[ERROR] it went wrong\n" * 30_000 + "Segmentation fault\n")
    assert diagnosis.lines == 30_001
    assert (diagnosis.error_lines, diagnosis.or_more_error_lines) == (1001, True)
    assert diagnosis.unexplained[0].kind == "death"


@pytest.mark.slow
def test_lines_that_are_counted_no_further_are_said_to_be_more(
    doctor: Command, tmp_path: Path
) -> None:
    oom = "RuntimeError: NPU out of memory. Tried to allocate 2 GiB (NPU 0; 60 GiB total capacity)"
    log = tmp_path / "train.log"
    many = of_text(f"{oom}\n" * 30_000).causes[0]
    assert many.id == "npu-oom-torch"
    assert many.or_more
    assert 5000 <= many.count < 30_000
    few = of_text(f"{oom}\n" * 4999).causes[0]
    assert (few.count, few.or_more) == (4999, False)
    log.write_text("ValueError: no such label\n" * 30_000)
    output = doctor("diagnose", str(log)).stdout
    assert " or more error lines that the catalogue does not explain" in " ".join(output.split())
    assert " or more lines)" in " ".join(output.split())


@pytest.mark.slow
def test_ranks_without_a_log_are_named(doctor: Command, tmp_path: Path) -> None:
    healthy = {f"job/attempt_0/{rank}/stdout.log": STEP for rank in (0, 1, 3)}
    assert of_files(healthy).without_log == ()
    healthy["job/attempt_0/0/stderr.log"] = "using world size: 4, data-parallel size: 4\n"
    diagnosis = of_files(healthy)
    assert diagnosis.without_log == (2,)
    assert diagnosis.exit_code == 3
    # A second node's ranks begin at 0 again: which is missing cannot be determined.
    assert of_files({**healthy, "other/attempt_0/0/stdout.log": STEP}).without_log == ()
    for name, text in healthy.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = doctor("diagnose", str(tmp_path))
    assert "no log of rank 2, which the run had" in done.stdout
    assert json.loads(doctor("diagnose", str(tmp_path), "--format", "json").stdout)["without_log"]


@pytest.mark.slow
def test_what_is_rare_is_found_between_lines_of_a_familiar_failure(tmp_path: Path) -> None:
    """In the log in which it became familiar and in the next; also where words excuse a line."""
    own = patterns.Patterns(catalog().recognized_failures.values())
    reader = JobReader(
        failures=catalog().recognized_failures, codes=catalog().error_codes, patterns=own
    )
    oom = (
        "RuntimeError: NPU out of memory. Tried to allocate 2 GiB (NPU 0; 60 GiB total capacity)\n"
    )
    wait = "EI0006: Getting socket times out. Reason: x\n"
    path = tmp_path / "train.log"
    for text in (oom * 60_000 + wait + oom * 20_000, oom):
        path.write_text(text)
        diagnosis = reader.diagnose(*find((str(path),)))
        shown = {cause.id for cause in diagnosis.causes}
        shown |= {what.id for cause in diagnosis.causes for what in cause.consequences}
        waits = {"hccl-connect-timeout-ei0006"} if "EI0006" in text else set()
        assert shown == {"npu-oom-torch"} | waits
        (cause,) = [cause for cause in diagnosis.causes if cause.id == "npu-oom-torch"]
        assert cause.or_more == bool(waits)


def test_frames_without_their_exception_are_told_from_where_it_was_raised() -> None:
    frames = (
        "EngineCore encountered a fatal error.\nTraceback (most recent call last):\n"
        '  File "/w/core.py", line 508, in run\n    self.loop()\n    ^^^^^^^^^^^\n'
        '  File "/w/moe.py", line 280, in forward\n'
    )
    texts = [unexplained.evidence.text.strip() for unexplained in of_text(frames).unexplained]
    assert texts == [
        "EngineCore encountered a fatal error.",
        'File "/w/moe.py", line 280, in forward',
        'File "/w/core.py", line 508, in run',
    ]


@pytest.mark.parametrize(
    "line",
    [
        "/opt/image.py:13: UserWarning: libc10_cuda.so: cannot open shared object file: no such",
        "0 image(s) corrupted: 100% 128/128 [00:00<00:00, 3223.54it/s]",
    ],
)
def test_a_warning_of_python_and_a_count_of_nothing_are_no_errors(line: str) -> None:
    assert not of_text(f"{line}\n").error_lines


def test_a_log_full_of_several_failures_is_passed_over_and_still_read(tmp_path: Path) -> None:
    """Each becomes familiar sooner; what follows is found."""
    known = (
        "[ERROR] RuntimeError: NPU out of memory. Tried to allocate {n} MiB (NPU 1; 60 GiB)",
        "[ERROR] no space left: OSError: [Errno 28] No space left on device: {n}",
    )
    text = "\n".join(known[n % 2].format(n=n) for n in range(24_000))
    path = tmp_path / "train.log"
    path.write_text(text + "\n[rank7]: ValueError: the last word\n")
    diagnosis = of_paths(path)
    rows = [(cause.or_more, cause.count) for cause in diagnosis.causes]
    rows += [
        (what.or_more, what.count) for cause in diagnosis.causes for what in cause.consequences
    ]
    assert len(rows) == 2
    assert all(or_more and count < 6_000 for or_more, count in rows)
    assert diagnosis.first_error
    assert 7 in diagnosis.ranks
