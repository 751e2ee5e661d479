import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.launching import launch_together
from ascend_doctor.probing.processes import Stream, Tail
from ascend_doctor.probing.request import ProbeRequest, ProbeWatch
from ascend_doctor.probing.schedule import run_all
from ascend_doctor.probing.warm import warmed
from tests.programs import run_program

pytestmark = pytest.mark.slow

PROBES = Path(__file__).parent.parent / "probes"


class Listener(ProbeWatch):
    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []

    def started(self, request: ProbeRequest) -> None:
        self.begun.append(request.probe)

    def ended(self, run: ProbeRun) -> None:
        self.done.append(run.probe)


def request(
    tmp_path: Path,
    name: str,
    body: str,
    *,
    deadline: float = 60.0,
    needs: tuple[str, ...] = (),
    together: bool = True,
) -> ProbeRequest:
    path = tmp_path / f"{name}.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(
        f"import os, signal, sys, time\n\ndef body(probe):\n{lines}\n"
        f"if __name__ == '__main__':\n"
        f"    sys.path.insert(0, {str(PROBES)!r})\n"
        f"    import _probe\n    _probe.main(body, name={name!r})\n",
        "utf-8",
    )
    return ProbeRequest(
        probe=name,
        device="cpu",
        python=sys.executable,
        script=str(path),
        deadline=deadline,
        needs=needs,
        together=str(PROBES / "_together.py") if together else "",
    )


PID = (
    "with probe.stage('x'):\n    print('of', probe.name, flush=True)\n"
    "probe.measure('p', os.getpid())"
)


def pids(runs: tuple[ProbeRun, ...]) -> list[int]:
    return [run.ranks[0].values["p"] for run in runs]


def test_probes_share_a_process_and_keep_what_is_theirs(tmp_path: Path) -> None:
    listener = Listener()
    runs = run_all([request(tmp_path, name, PID) for name in ("a", "b", "c")], watch=listener)
    assert len(set(pids(runs))) == 1
    for name, run in zip("abc", runs, strict=True):
        (rank,) = run.ranks
        assert (rank.probe, rank.ok, rank.output) == (name, True, f"of {name}")
        assert rank.stages.keys() == {"x"}
        assert (run.exit_code, run.timed_out, run.failed_after) == (0, False, "")
        # Each can be repeated alone.
        assert run.argv[1].endswith(f"{name}.py")
    assert listener.begun == listener.done == ["a", "b", "c"]


def test_what_a_probe_rules_out_is_not_begun(tmp_path: Path) -> None:
    rules_out = f"{PID}\nprobe.measure('blocks', 'no way')"
    several = [
        request(tmp_path, "a", PID),
        request(tmp_path, "b", rules_out, needs=("a",)),
        request(tmp_path, "c", PID, needs=("b",)),
        request(tmp_path, "d", PID, needs=("a",)),
    ]
    first, other, ruled_out, last = run_all(several)
    assert (ruled_out.not_started, ruled_out.ranks) == ("no way", ())
    assert first.sound
    assert other.sound
    assert last.sound
    assert pids((first,)) == pids((other,)) != pids((last,))


def test_one_that_must_be_apart_is(tmp_path: Path) -> None:
    first, second, third = (request(tmp_path, name, PID, together=name != "b") for name in "abc")
    runs = run_all([first, second, third])
    first_pid, other, last = pids(runs)
    assert first_pid == last != other
    assert [run.probe for run in runs] == ["a", "b", "c"]


def test_what_fails_after_others_is_tried_again_by_itself(tmp_path: Path) -> None:
    spoils = "import math\nmath.spoilt = True"
    suffers = "import math\nif hasattr(math, 'spoilt'):\n    raise ValueError('spoilt')"
    listener = Listener()
    several = [request(tmp_path, "a", spoils), request(tmp_path, "b", suffers)]
    first, second, third = run_all([*several, request(tmp_path, "c", PID)], watch=listener)
    assert first.sound
    assert second.sound
    assert second.failed_after == "ValueError: spoilt, after a"
    assert third.sound
    # An end that does not count is not reported.
    assert listener.done == ["a", "b", "c"]


CRASHES = "with probe.stage('deep'):\n    os.kill(os.getpid(), signal.SIGSEGV)"


@pytest.mark.parametrize(
    ("body", "deadline", "error", "code"),
    [
        ("raise ValueError('mine')", 60.0, "ValueError: mine", 1),
        (CRASHES, 60.0, "", -11),
        ("with probe.stage('deep'):\n    time.sleep(600)", 1.5, "", None),
    ],
)
def test_a_culprit_takes_nobody_along(
    tmp_path: Path, body: str, deadline: float, error: str, code: int | None
) -> None:
    culprit = request(tmp_path, "b", body, deadline=deadline)
    others = [request(tmp_path, name, PID) for name in "ac"]
    first, second, third = run_all([others[0], culprit, others[1]])
    assert first.sound
    assert third.sound
    assert not second.sound
    assert second.ranks[0].error == error
    assert second.exit_code == code
    assert second.timed_out is (code is None)
    assert second.failed_after == ""


def test_wrong_values_after_others_are_tried_again_and_stop_nobody(tmp_path: Path) -> None:
    wrong = "probe.expect('sum', os.environ.get('SPOILT'), None)"
    several = [request(tmp_path, "a", "os.environ['SPOILT'] = '1'"), request(tmp_path, "b", wrong)]
    _, second, third = run_all([*several, request(tmp_path, "c", PID)])
    assert second.sound
    assert second.failed_after == "sum, after a"
    assert third.sound


def test_what_needs_a_wrong_one_is_not_started(tmp_path: Path) -> None:
    wrong = request(tmp_path, "a", "probe.expect('sum', 1, 2)")
    needs = request(tmp_path, "b", PID, needs=("a",))
    first, second, third = run_all([wrong, needs, request(tmp_path, "c", PID)])
    assert first.ranks[0].wrong
    assert second.not_started == "the probe a failed"
    assert third.sound


def test_the_total_time_out_cuts_the_one_that_is_running(tmp_path: Path) -> None:
    hangs = request(tmp_path, "b", "time.sleep(600)")
    first, second, third = run_all(
        [request(tmp_path, "a", "pass"), hangs, request(tmp_path, "c", PID)], total=4
    )
    assert first.sound
    assert second.timed_out or second.not_started
    assert third.not_started == "the total time-out of 4 s was used up before"


def test_a_script_that_does_not_load_is_its_own_fault(tmp_path: Path) -> None:
    broken = request(tmp_path, "b", "pass")
    Path(broken.script).write_text("import no_such_module\n", "utf-8")
    first, second = run_all([request(tmp_path, "a", PID), broken])
    assert first.sound
    assert not second.sound


TORCH = "import time, os\nbegan = (os.getpid(), time.monotonic())\n"
INITIALISED = f"{TORCH}class npu:\n    is_initialized = staticmethod(lambda: True)\n"


def fork_request(
    tmp_path: Path, name: str, body: str, *, torch: str = TORCH, **more: Any
) -> ProbeRequest:
    """A probe for a forked process that has imported a stand-in of torch."""
    (tmp_path / "torch.py").write_text(torch, "utf-8")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    plain = request(tmp_path, name, body, together=False, **more)
    return msgspec.structs.replace(plain, forked=True, env=env)


WHOSE = f"import torch\nprobe.measure('torch', torch.began)\n{PID}"


def test_forks_share_one_import_and_nothing_else(tmp_path: Path) -> None:
    listener = Listener()
    spoils = f"import math\nmath.spoilt = os.environ['SPOILT'] = '1'\n{WHOSE}"
    suffers = (
        f"import math\nassert not hasattr(math, 'spoilt') and 'SPOILT' not in os.environ\n{WHOSE}"
    )
    several = [
        fork_request(tmp_path, "a", spoils),
        fork_request(tmp_path, "b", suffers),
        fork_request(tmp_path, "c", WHOSE),
    ]
    runs = run_all(several, watch=listener)
    assert len(set(pids(runs))) == len(runs)
    assert len({tuple(run.ranks[0].values["torch"]) for run in runs}) == 1
    for name, run in zip("abc", runs, strict=True):
        assert (run.sound, run.exit_code, run.failed_after) == (True, 0, "")
        assert run.ranks[0].output == f"of {name}"
        assert run.argv[1].endswith(f"{name}.py")
    assert listener.begun == listener.done == ["a", "b", "c"]


@pytest.mark.parametrize("position", ["first", "second"])
@pytest.mark.parametrize(
    ("body", "deadline", "error", "code"),
    [
        ("raise ValueError('mine')", 60.0, "ValueError: mine", 1),
        (CRASHES, 60.0, "", -11),
        ("import atexit, ctypes\natexit.register(ctypes.string_at, 0)", 60.0, "", -11),
        ("with probe.stage('deep'):\n    time.sleep(600)", 3.0, "", None),
    ],
)
def test_a_fork_that_ends_badly_is_told_as_without_forks(
    tmp_path: Path, position: str, body: str, deadline: float, error: str, code: int | None
) -> None:
    culprit = fork_request(tmp_path, "b", body, deadline=deadline)
    before = [fork_request(tmp_path, "a", PID)] if position == "second" else []
    *_, bad, third = run_all([*before, culprit, fork_request(tmp_path, "c", PID)])
    (alone,) = run_all([culprit.unforked])
    for run in (bad, alone):
        assert (run.exit_code, run.timed_out) == (code, code is None)
        assert (run.ranks[0].error, run.ranks[0].stage, run.failed_after) == (
            error,
            alone.ranks[0].stage,
            "",
        )
    assert third.sound


def test_what_fails_in_a_fork_alone_ends_the_forks(tmp_path: Path) -> None:
    refuses = "if 'torch' in sys.modules:\n    raise RuntimeError('Cannot re-initialize NPU')"
    tells = f"{PID}\nprobe.measure('had', 'torch' in sys.modules)"
    listener = Listener()
    several = [fork_request(tmp_path, "a", refuses), fork_request(tmp_path, "b", tells)]
    first, second, third = run_all([*several, fork_request(tmp_path, "c", tells)], watch=listener)
    assert first.sound
    assert first.failed_after == (
        "RuntimeError: Cannot re-initialize NPU, after a fork behind the import of torch"
    )
    assert not second.ranks[0].values["had"]
    assert not third.ranks[0].values["had"]
    assert listener.done == ["a", "b", "c"]


FORK = "from multiprocessing import parent_process as forked\nprobe.measure('p', bool(forked()))\n"


@pytest.mark.parametrize(
    ("body", "code", "ended", "why"),
    [("forked() and os._exit(7)", 0, None, "exit code 7"), ("probe.rank or os.abort()", 1, -6, "")],
)
def test_a_forked_rank_counts_alone(
    tmp_path: Path, examined_python: Path, body: str, code: int, ended: int | None, why: str
) -> None:
    more = {"python": str(examined_python), "torchrun": True, "forked": True, "world_size": 2}
    several = [
        msgspec.structs.replace(request(tmp_path, name, FORK + add), **more)
        for name, add in {"a": "", "b": body, "c": "", "d": ""}.items()
    ]
    first, second, third, last = run_all(several)
    assert pids((first, third, last)) == [True, *[not why] * 2]
    assert (second.exit_code, second.ranks[0].exit_code) == (code, ended)
    assert second.failed_after.startswith(why)


@pytest.mark.parametrize(
    "torch", [INITIALISED, "raise ImportError('no')", "import os\nos._exit(9)"]
)
def test_where_a_fork_could_not_use_torch_the_probes_start_for_themselves(
    tmp_path: Path, torch: str
) -> None:
    tells = f"{PID}\nprobe.measure('had', 'torch' in sys.modules)"
    several = [
        msgspec.structs.replace(fork_request(tmp_path, name, tells, torch=torch), device="npu")
        for name in "ab"
    ]
    (tmp_path / "torch_npu.py").touch()
    for name, run in zip("ab", run_all(several), strict=True):
        assert run.sound
        assert not run.ranks[0].values["had"]
        assert run.ranks[0].output == f"of {name}"


CASES = """
import _probe, torch
_cases = _probe.neighbour("_cases")
def begin(*_):
    return {"began": torch.began, "pid": os.getpid()}
cases = {"a": begin, "crash": lambda *_: os.kill(os.getpid(), 11), "b": begin,
         "leave": lambda *_: os._exit(5), "hang": lambda *_: time.sleep(600), "c": begin}
_cases.run(probe, __file__, list(cases), limit=2, cases=cases)
probe.measure("began", torch.began)
"""


def test_cases_are_forked_and_a_bad_one_takes_no_other_along(tmp_path: Path) -> None:
    body = "\n".join(CASES.strip().splitlines())
    several = [fork_request(tmp_path, "x", body), fork_request(tmp_path, "y", PID)]
    with warmed(several):  # or the case that hangs is tried again, without forks
        (run,), (other,) = (launch_together([each]) for each in several)
    assert run.sound
    assert other.sound
    values = run.ranks[0].values
    cases = values["cases"]
    errors = [cases[name].get("error", "") for name in ("crash", "leave", "hang")]
    assert errors == [
        "ChildProcessError: the process crashed with SIGSEGV",
        "ChildProcessError: the process ended with exit code 5",
        "TimeoutError: no end after 2 s",
    ]
    well = [cases[name] for name in "abc"]
    assert [case["began"] for case in well] == [values["began"]] * 3
    assert len({case["pid"] for case in well}) == len(well)


SPARE = """
import os, sys
sys.path.insert(0, {probes!r})
import math
math.known = True
import _spares
_spares.fork(2)
env = {{**os.environ, "ASKED": "yes"}}
for arguments in (["one"], ["kill"], ["one"]):
    print(_spares.run([{script!r}, *arguments], env), flush=True)
"""


def test_a_spare_process_becomes_a_script_and_then_an_interpreter_does(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, math, os, sys\n"
        "atexit.register(print, 'left')\n"
        "print(sys.argv[1:], __name__, os.environ['ASKED'], hasattr(math, 'known'),\n"
        "      sys.path[0] == os.path.dirname(__file__), flush=True)\n"
        "os.kill(os.getpid(), 9) if sys.argv[1] == 'kill' else sys.exit(3)\n"
    )
    program = SPARE.format(probes=str(PROBES), script=str(script))
    done = run_program([sys.executable, "-c", program])
    assert done.stdout.splitlines() == [
        "['one'] __main__ yes True True",
        "left",
        "3",
        "['kill'] __main__ yes True True",
        "-9",
        "['one'] __main__ yes False True",
        "left",
        "3",
    ]


PRINTED = st.binary(max_size=40).filter(lambda data: b"\0" not in data)


@given(st.lists(PRINTED, min_size=3, max_size=3), st.data())
def test_output_is_cut_at_the_marks_however_it_comes(
    pieces: list[bytes], data: st.DataObject
) -> None:
    tails = {name: Tail() for name in ("a", "b", "c")}
    stream = Stream(tails)
    whole = b"".join(
        b"\0ascend-doctor probe %s\n%s" % (name.encode(), piece)
        for name, piece in zip(tails, pieces, strict=True)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        stream.feed(whole[begin:end])
    stream.end()
    texts = [piece.decode("utf-8", "replace") for piece in pieces]
    assert [tail.text for tail in tails.values()] == texts


def test_zeros_that_are_no_mark_are_output() -> None:
    tail = Tail()
    stream = Stream({"a": tail})
    stream.feed(b"x\0" + b"y" * 200 + b"\0")
    stream.end()
    assert tail.text == "x\0" + "y" * 200 + "\0"


def test_two_nodes_meet(examined_python: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    code = (
        "import sys\n"
        "from ascend_doctor.probing.schedule import Extent, plan, run_all\n"
        "from ascend_doctor.probing.request import LaunchNodes\n"
        f"nodes = LaunchNodes(count=2, rank=int(sys.argv[1]), endpoint='127.0.0.1:{port}')\n"
        f"several = plan(3, device='cpu', nproc=1, python={str(examined_python)!r},\n"
        "               extent=Extent(nodes=nodes))\n"
        "(run,) = run_all([one for one in several if one.probe == 'allreduce'])\n"
        "print([(one.rank, one.world_size, one.compared, one.wrong) for one in run.ranks],\n"
        "      run.missing, run.world_size, run.output)\n"
    )
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(rank)], stdout=subprocess.PIPE, env=env)
        for rank in (0, 1)
    ]
    outputs = [process.communicate(timeout=180)[0].decode().strip() for process in both]
    # The first to end takes the store along; the other's torchrun may complain.
    assert outputs[0].startswith("[(0, 2, 40, ())] () 2")
    assert outputs[1].startswith("[(1, 2, 40, ())] () 2")
