import signal
from typing import Any

import msgspec
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.checks.probes import probes
from ascend_doctor.checks.probes.probe_culprit import blame
from ascend_doctor.checks.python.probes import imports
from ascend_doctor.facts import ImportName, ImportPath, PackageCopy, Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge, list_registered
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.checks.levels import remedy_of
from tests.present import present
from tests.probes.judged import judge_probes

WAITING = """Thread 0x1 (most recent call first):
  File "/p/_probe.py", line 9 in _beat

Thread 0x2 (most recent call first):
  File "/lib/torch/distributed/distributed_c10d.py", line 3057 in all_reduce
  File "/p/allreduce.py", line 55 in body
"""
SLEEPING = """Thread 0x2 (most recent call first):
  File "/p/thing.py", line 7 in asleep
  File "/p/allreduce.py", line 55 in body
"""
CRASHED = "Fatal Python error: Segmentation fault\n\n" + SLEEPING + "\nExtension modules: numpy"
CLOSED = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:31963"
LOST_DEVICE = (
    "RuntimeError: NPU function error: AclrtSynchronizeStreamWithTimeout(stream()), error code is "
    "507010\nEL0001: Device[1] lost heartbeat, runtime result = 507010."
)
ABSENT = "RuntimeError: HCCL function error\nEI0015: Failed to connect agent[1]"
TORCHRUN = ("python", "-m", "torch.distributed.run", "probes/allreduce.py", "--device", "cpu")
STAGES = ("import", "rendezvous", "link", "sum")


def rank(number: int, stage: str = "sum", **fields: Any) -> ProbeResult:
    entered = dict.fromkeys(STAGES[: STAGES.index(stage) + 1], 9.0)
    return ProbeResult(rank=number, world_size=4, stage=stage, stages=entered, **fields)


def waiting(number: int, stage: str = "sum", **fields: Any) -> ProbeResult:
    return rank(number, stage, stack=WAITING, **fields)


def allreduce(*ranks: ProbeResult, **fields: Any) -> ProbeRun:
    fields = {"exit_code": 1, **fields}
    if fields.get("timed_out"):
        fields["exit_code"] = None
    return ProbeRun(
        probe="allreduce",
        device="cpu",
        world_size=4,
        argv=TORCHRUN,
        ranks=ranks,
        deadline=20.0,
        **fields,
    )


def judge_run(run: ProbeRun, device: str = "cpu") -> tuple[Finding, ...]:
    return judge_probes(run, check=run.probe, device=device)


def only(run: ProbeRun, device: str = "cpu") -> Finding:
    (finding,) = judge_run(run, device)
    return finding


# --- who is guilty

# torchrun of torch 2.10.0, without the lines of the other ranks.
KILLED_BY_TORCHRUN = """[3]:
  time      : 2026-11-26_21:15:33
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 3033)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 3033
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_21:15:03
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 3036)
"""
GUILT = {
    "a signal, not those that lost the peer": (
        allreduce(
            rank(0, ok=False, error=CLOSED, exit_code=1),
            rank(1, exit_code=-11, stack=CRASHED),
            waiting(2, exit_code=-15),
        ),
        ("crash", (1,), "sum", "SIGSEGV"),
    ),
    "the crash before the abort of a watchdog": (
        allreduce(rank(0, exit_code=-6), rank(1, exit_code=-9), rank(2, exit_code=-6)),
        ("crash", (1,), "sum", "SIGKILL"),
    ),
    "the rank that others waited for, which torchrun ended": (
        allreduce(
            rank(0, exit_code=-9),
            rank(1, ok=False, error=CLOSED, exit_code=1),
            output=KILLED_BY_TORCHRUN,
        ),
        ("hang", (0,), "sum", ""),
    ),
    "an abort where there is nothing else": (
        allreduce(rank(0, exit_code=-6), waiting(1)),
        ("crash", (0,), "sum", "SIGABRT"),
    ),
    "a signal without a name": (
        allreduce(rank(0, exit_code=-99)),
        ("crash", (0,), "sum", "signal 99"),
    ),
    "an exit code": (
        allreduce(waiting(0), rank(1, "rendezvous", exit_code=3)),
        ("exit", (1,), "rendezvous", "exit code 3"),
    ),
    "an exit without any code": (
        allreduce(rank(0, ok=False, error=CLOSED), rank(1), waiting(2)),
        ("exit", (1,), "sum", "exit code 0"),
    ),
    "the rank that never came": (
        allreduce(waiting(0, "rendezvous"), missing=(1, 3), timed_out=True),
        ("missing", (1, 3), "", ""),
    ),
    "an error of its own before a lost peer": (
        allreduce(
            rank(0, ok=False, error=CLOSED), rank(1, ok=False, error="ValueError: own"), waiting(2)
        ),
        ("exception", (1,), "sum", "ValueError: own"),
    ),
    "a lost device, though torch_npu waited WithTimeout for it": (
        allreduce(waiting(0, "link"), rank(1, ok=False, error=LOST_DEVICE)),
        ("exception", (1,), "sum", LOST_DEVICE),
    ),
    "the one that never joined, not the one that says so": (
        allreduce(rank(0, "link", ok=False, error=ABSENT), waiting(1, "link")),
        ("hang", (1,), "link", ""),
    ),
    "the one outside the collective": (
        allreduce(waiting(0), rank(1, stack=SLEEPING), waiting(2), timed_out=True),
        ("hang", (1,), "sum", ""),
    ),
    "the one that no longer answers": (
        allreduce(waiting(0), rank(1, silent=9.0), waiting(2), timed_out=True),
        ("hang", (1,), "sum", ""),
    ),
    "the one behind": (
        allreduce(waiting(0), waiting(1, "link"), waiting(2), timed_out=True),
        ("hang", (1,), "link", ""),
    ),
    "the one ahead of most": (
        allreduce(waiting(0, "link"), waiting(1, "link"), waiting(2), timed_out=True),
        ("hang", (2,), "sum", ""),
    ),
    "the one that others timed out on": (
        allreduce(rank(0, ok=False, error="RuntimeError: Timed out waiting 5000ms"), waiting(1)),
        ("hang", (1,), "sum", ""),
    ),
    "nobody where all wait at one place": (
        allreduce(waiting(0), waiting(1), timed_out=True),
        ("hang", (), "sum", ""),
    ),
    "nobody where all lost each other": (
        allreduce(rank(0, ok=False, error=CLOSED), rank(1, ok=False, error=CLOSED)),
        ("lost", (), "sum", CLOSED),
    ),
}


@pytest.mark.parametrize("name", GUILT)
def test_the_guilty_rank_and_its_stage_are_named(name: str) -> None:
    run, expected = GUILT[name]
    cause = present(blame(run))
    assert (cause.kind, cause.ranks, cause.stage, cause.text) == expected


# --- findings


TIMES = {"first_call_s": 0.1, "steady_s": 0.01}


def test_all_well_says_how_much_was_compared() -> None:
    ranks = [rank(index, ok=True, compared=17, values=TIMES) for index in range(4)]
    finding = only(allreduce(*ranks, exit_code=0))
    assert finding.level is Level.OK
    assert finding.observed == "4 ranks on cpu, 68 sums compared"


def test_a_hang_says_who_stands_where_and_how_to_repeat_it() -> None:
    run = allreduce(
        waiting(0), rank(1, stack=SLEEPING, silent=9.0, output="a\n\nlast words"), timed_out=True
    )
    finding = only(run)
    assert finding.title == "allreduce: rank 1 hangs in stage sum"
    for text in ("ranks 0, 1 in sum", "no sign of life for 9 s", "in asleep", "last words"):
        assert text in finding.observed
    (command,) = remedy_of(finding).commands
    assert command == f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 {' '.join(TORCHRUN)}"


def test_an_error_that_the_catalogue_knows_is_explained() -> None:
    text = "TypeError: get_device_capability() takes 0 positional arguments but 1 was given"
    known = Catalog().failures["device-capability-arguments"]
    finding = only(allreduce(rank(0, ok=False, error=text)))
    assert finding.because == known.cause
    assert remedy_of(finding).summary == known.fix
    # What several rows know, or none, is not.
    unknown = only(allreduce(rank(0, ok=False, error="ValueError: sample 7 has no label")))
    assert unknown.because == ""
    assert "by itself" in (unknown.remedy.summary if unknown.remedy else "")


def test_a_run_without_command_has_no_remedy() -> None:
    finding = only(ProbeRun(probe="allreduce", ranks=(rank(0, exit_code=-9),)))
    assert finding.remedy is None
    assert "out of memory" in finding.because


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (allreduce(rank(0, exit_code=-11)), "rank 0 crashed with SIGSEGV in stage sum"),
        (allreduce(rank(0, exit_code=3)), "rank 0 ended with exit code 3 in stage sum"),
        (allreduce(waiting(0), missing=(1,)), "rank 1 never started"),
        (allreduce(rank(0, ok=False, error="ValueError: x")), "rank 0 failed in stage sum"),
        (allreduce(rank(0, ok=False, error=CLOSED)), "all ranks lost each other in stage sum"),
        (allreduce(waiting(0), waiting(1), timed_out=True), "every rank hangs in stage sum"),
    ],
)
def test_the_title_states_the_problem(run: ProbeRun, text: str) -> None:
    finding = only(run)
    assert finding.level is Level.ERROR
    assert finding.title == f"allreduce: {text}"


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (ProbeRun(probe="allreduce", not_started="no interpreter"), "no interpreter"),
        (allreduce(missing=(0, 1), output="No module named torch"), "No module named torch"),
        (allreduce(missing=(0, 1), timed_out=True), "no rank started within 20 s"),
        (allreduce(rank(0), exit_code=-signal.SIGKILL), "torchrun was ended by SIGKILL"),
        (
            allreduce(rank(0, "rendezvous", ok=False, error="DistNetworkError: timed out")),
            "did not find each other",
        ),
        (
            allreduce(waiting(0), waiting(1), timed_out=True, shortened=True),
            "--timeout left it 20 s",
        ),
    ],
)
def test_the_infrastructure_is_no_fault_of_a_device(run: ProbeRun, text: str) -> None:
    finding = only(run)
    assert finding.level is Level.UNKNOWN
    assert text in finding.title


BUSY = {"timed_out": True, "load": "load 9 on 2 cores", "delayed": 12.0, "seconds": 20.0}


@pytest.mark.parametrize(
    ("ranks", "fields", "level", "text"),
    [
        # All seconds of the stage, nothing done: a hang, even on a busy machine.
        ((waiting(0, idle=19.0),), BUSY, Level.ERROR, "rank 0 hangs in stage sum"),
        ((waiting(0, idle=0.5),), BUSY, Level.UNKNOWN, "waited 12 of 20 s for a processor"),
        ((waiting(0, idle=0.5),), {**BUSY, "first_try": "no end after 9 s"}, Level.UNKNOWN, "busy"),
        ((rank(0, ok=True),), BUSY, Level.UNKNOWN, "machine busy, load 9 on 2"),
        ((waiting(1),), {**BUSY, "missing": (0,)}, Level.UNKNOWN, "machine busy"),
        ((rank(0, ok=True, values={"late": True}),), BUSY, Level.UNKNOWN, "machine busy"),
        ((waiting(0, idle=0.5),), {"timed_out": True}, Level.ERROR, "rank 0 computes without an"),
        (
            (waiting(0, idle=0.5),),
            {"timed_out": True, "shortened": True},
            Level.UNKNOWN,
            "--timeout left it 20 s, and it was not done: rank 0 in stage sum",
        ),
    ],
)
def test_load_is_no_fault_of_a_probe(
    ranks: tuple[ProbeResult, ...], fields: dict[str, Any], level: Level, text: str
) -> None:
    run = msgspec.structs.replace(allreduce(*ranks, **fields), world_size=1)
    finding = only(run)
    assert (finding.level, text in finding.title) == (level, True)
    assert "each other" not in f"{finding.title} {finding.because}"


def test_a_finding_says_that_it_was_the_second_try() -> None:
    run = allreduce(waiting(0), waiting(1), timed_out=True, first_try="no end after 20 s")
    assert "the second try, after no end after 20 s" in only(run).observed


def test_a_hang_after_good_results_is_a_warning() -> None:
    run = allreduce(rank(0, ok=True), timed_out=True, left_behind=(42,))
    findings = judge_run(run)
    assert [finding.level for finding in findings] == [Level.WARNING] * 2
    assert "process 42 survived SIGKILL" in findings[1].observed


def test_slow_links_are_a_warning() -> None:
    run = allreduce(rank(0, ok=True, values={"first_call_s": 61.0}), exit_code=0)
    assert only(run).level is Level.WARNING


# --- device


KEPT = {"leaked_bytes": 0}


def device_run(**values: Any) -> ProbeRun:
    return ProbeRun(probe="device", exit_code=0, ranks=(ProbeResult(ok=True, values=values),))


GOOD = {"finite": True, "error_relative": 1e-4}


@pytest.mark.parametrize(
    ("values", "level", "text"),
    [
        ({"matmul": {"float32": GOOD}, "name": "Ascend910B3", **KEPT}, Level.OK, "Ascend910B3"),
        ({"matmul": {"float32": {**GOOD, "error_relative": 0.1}}}, Level.ERROR, "0.1"),
        ({"matmul": {"float32": {**GOOD, "error_relative": "nan"}}}, Level.ERROR, "nan"),
        ({"matmul": {"float16": {**GOOD, "finite": False}}}, Level.ERROR, "finite: False"),
        ({"matmul": {"bfloat16": {"error": "RuntimeError: 561103"}}}, Level.ERROR, "561103"),
        (
            {"name": "Ascend910A", "matmul": {"bfloat16": {"error": "x"}}, **KEPT},
            Level.OK,
            "Ascend910A",
        ),
        ({"leaked_bytes": 512}, Level.WARNING, "512 bytes"),
    ],
)
def test_device(values: dict[str, Any], level: Level, text: str) -> None:
    finding = only(device_run(**values))
    assert finding.level is level
    assert text in finding.observed


def test_a_damaged_record_tells_nothing() -> None:
    finding = only(device_run(matmul={"float32": "?"}))
    assert finding.level is Level.UNKNOWN
    assert finding.reason.startswith("the record is damaged: Expected `object`")


def test_an_interpreter_that_crashes_at_once() -> None:
    for fields, text in (
        ({"exit_code": -11}, "the interpreter crashed with SIGSEGV and the probe never started"),
        ({"exit_code": 1, "output": "boom"}, "ended with exit code 1"),
        ({"timed_out": True, "deadline": 9.0}, "did nothing for 9 s"),
    ):
        run = ProbeRun(probe="inspect-env", missing=(0,), **fields)
        finding = only(run)
        assert finding.level is Level.ERROR
        assert text in finding.title


LIBRARY = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
WRAPPER = "RuntimeError: Failed to load the backend extension: torch_npu."
FINE = {"ok": True, "version": "2.13.0"}


def import_modules(blocks: str = "", **modules: dict[str, Any]) -> ProbeRun:
    named = {
        name.replace("__", " ").replace("_dot_", "."): module for name, module in modules.items()
    }
    values = {"modules": named, "blocks": blocks}
    return ProbeRun(probe="inspect-env", exit_code=0, ranks=(ProbeResult(ok=True, values=values),))


def broken(error: str, **fields: Any) -> dict[str, Any]:
    return {"ok": False, "error": error, **fields}


def test_the_trap_names_the_missing_library() -> None:
    run = import_modules(
        torch=broken(LIBRARY, outermost=WRAPPER),
        torch__without__autoload=FINE,
        torch_npu=broken(LIBRARY),
        mindspeed=broken(LIBRARY),
    )
    finding = only(run, "npu")
    assert finding.level is Level.ERROR
    assert finding.title == (
        "`import torch` fails, because torch loads its extension and libhccl.so is not found"
    )
    assert WRAPPER in finding.observed
    assert LIBRARY in finding.observed
    assert "set_env.sh" in remedy_of(finding).summary


def test_a_torch_that_is_broken_by_itself_is_no_trap() -> None:
    text = "ImportError: libtorch.so: undefined symbol: _ZN3c105ErrorE"
    run = import_modules(torch=broken(text), torch__without__autoload=broken(text))
    finding = only(run, "npu")
    assert finding.title == "`import torch` fails: the symbol _ZN3c105ErrorE is missing"
    assert finding.remedy is None


@pytest.mark.parametrize(("device", "level"), [("npu", Level.ERROR), ("cpu", Level.WARNING)])
def test_torch_npu_matters_where_it_is_used(device: str, level: Level) -> None:
    assert only(import_modules(torch=FINE, torch_npu=broken(LIBRARY)), device).level is level


LATE = "TimeoutError: no end after 121 s"


@pytest.mark.parametrize(
    "modules",
    [
        {"torch": broken(LATE), "torch__without__autoload": FINE},
        {"torch": broken(LATE), "torch__without__autoload": broken(LATE)},
        {"torch": FINE, "mindspeed": broken(LATE)},
    ],
)
def test_an_import_that_takes_too_long_could_not_be_told(modules: dict[str, Any]) -> None:
    finding = only(import_modules(**modules), "npu")
    assert finding.level is Level.UNKNOWN
    assert "did not end in time" in finding.title
    assert "--patience" in remedy_of(finding).commands[0]


def test_a_missing_module_is_named_with_its_package() -> None:
    run = import_modules(
        torch=FINE, mindspeed=broken("ModuleNotFoundError: No module named 'attr'")
    )
    finding = only(run)
    assert finding.title == "`import mindspeed` fails: the module attr is missing"
    assert remedy_of(finding).commands == ("python -m pip install attrs",)


def test_an_unknown_error_is_quoted() -> None:
    run = import_modules(
        torch=FINE, megatron_dot_core=broken("ValueError: odd\nand more", output="hint")
    )
    finding = only(run)
    assert finding.title == "`import megatron.core` fails: ValueError: odd"
    assert finding.observed.endswith("hint")


def test_no_device_is_an_error_on_an_npu_machine() -> None:
    run = import_modules(torch=FINE, torch_npu={**FINE, "devices": 0})
    levels = [finding.level for finding in judge_run(run, "npu")]
    assert Level.ERROR in levels
    assert Level.ERROR not in [finding.level for finding in judge_run(run, "cpu")]


def test_what_was_imported_is_listed() -> None:
    finding = only(import_modules(torch=FINE, mindspeed={"ok": True}))
    assert finding.level is Level.OK
    assert finding.observed == "torch 2.13.0, mindspeed"


def test_an_environment_without_torch() -> None:
    run = ProbeRun(
        probe="inspect-env",
        exit_code=0,
        ranks=(ProbeResult(ok=True, values={"blocks": "torch is not installed"}),),
    )
    assert only(run).title == "torch is not installed"


def test_each_probe_has_its_check() -> None:
    runs = {check.id: check.run for check in list_registered()}
    assert (runs["device"].__module__, runs["allreduce"].__module__) == (probes.__name__,) * 2
    assert imports.inspect_env in runs.values()


def test_ranks_that_still_advance_are_slow_and_do_not_hang() -> None:
    late = [
        ProbeResult(
            rank=number,
            world_size=2,
            stage="sum",
            stages={"import": 17.0, "rendezvous": 1.5, "sum": 1.0},
            stack=WAITING,
        )
        for number in range(2)
    ]
    finding = only(allreduce(*late, timed_out=True))
    assert finding.level is Level.UNKNOWN
    assert "not done after 20 s, and still advancing" in finding.title
    lost = "RuntimeError: [Gloo] Connection closed by peer"
    gone = msgspec.structs.replace(late[0], ok=False, error=lost)
    finding = only(allreduce(gone, late[1], seconds=24.4))
    assert finding.level is Level.UNKNOWN
    assert "not done after 24 s, and still advancing" in finding.title


@pytest.mark.parametrize("shortened", [False, True])
def test_who_stands_as_long_as_others_waited_hangs(*, shortened: bool) -> None:
    """Their own limit ended it, before the probe's deadline or one that --timeout shortened."""
    error = "RuntimeError: ... EI0002: notify wait"
    gone = ProbeResult(rank=0, ok=False, stage="sum", stages={"import": 9.0, "sum": 6.8})
    gone = msgspec.structs.replace(gone, error=error)
    stands = ProbeResult(rank=1, stage="sum", stages={"import": 9.0, "sum": 6.9}, stack=SLEEPING)
    run = allreduce(gone, stands, seconds=16.0, shortened=shortened)
    run = msgspec.structs.replace(run, deadline=300.0)
    finding = only(run)
    assert (finding.level, finding.ranks) == (Level.ERROR, (1,))
    assert finding.title == "allreduce: rank 1 hangs in stage sum"
    assert finding.required == "in the collective within the 7 s that the others waited"
    late = msgspec.structs.replace(stands, stages={"import": 14.0, "sum": 1.9})
    late_run = msgspec.structs.replace(run, ranks=(gone, late))
    assert only(late_run).level is Level.UNKNOWN


def test_a_group_that_cannot_be_left_is_a_warning() -> None:
    ranks = [rank(0, ok=True), rank(1, ok=True, values={"teardown_error": "OSError: gone"})]
    finding = only(allreduce(*ranks, exit_code=0))
    assert finding.level is Level.WARNING
    assert (finding.ranks, finding.observed) == ((1,), "rank 1: OSError: gone")


def test_a_probe_that_suffers_from_others_is_a_warning() -> None:
    run = allreduce(rank(0, ok=True), exit_code=0, failed_after="ValueError: x, after device")
    finding = only(run)
    assert finding.level is Level.WARNING
    assert finding.observed == "ValueError: x, after device"


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (ImportPath(), Level.SKIPPED),
        (None, Level.UNKNOWN),
        (
            ImportPath(
                names=(
                    ImportName(
                        name="mindspeed",
                        copies=(PackageCopy(path="/m", entry="/", kind="package"),),
                    ),
                )
            ),
            Level.UNKNOWN,
        ),
    ],
)
def test_what_is_not_there_is_skipped_and_what_could_not_start_is_unknown(
    path: ImportPath | None, level: Level
) -> None:
    run = ProbeRun(probe="mindspeed-patches", not_started="torch is not installed")
    case = Case(facts=Snapshot(probes=(run,), import_path=path), catalog=Catalog())
    (chosen,) = [check for check in all_checks() if check.id == "stack-pair"]
    assert [finding.level for finding in judge(case, [chosen])] == [level]
