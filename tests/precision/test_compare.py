"""``compare -- COMMAND``: a job on the CPU and on simulated NPUs."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.precision import RECORDER
from tests.programs import run_program

pytestmark = pytest.mark.slow
DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
TRAIN = """
import importlib.util, os, sys
import torch
npu = os.environ.get("ASCEND_DOCTOR_DEVICE") == "npu"
if npu or "always" in sys.argv or "asks" in sys.argv:
    import torch_npu
if "always" in sys.argv:
    torch.npu.set_device(0)
if "asks" in sys.argv:  # as accelerate does
    npu = importlib.util.find_spec("torch_npu") is not None and torch.npu.is_available()
device = torch.device("npu" if npu and "never" not in sys.argv else "cpu")

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = self.drop(self.first(x).relu())
        if npu and "fault" in sys.argv:
            x = x.flip(1)
        return self.last(x)

net = Net().to(device)
optimizer = torch.optim.AdamW(net.parameters())
for step in range(5):
    optimizer.zero_grad()
    net(torch.randn(3, 8).to(device)).square().mean().backward()
    optimizer.step()
print("trained")
sys.exit(7 if npu and "fail" in sys.argv else 0)
"""
# Of the job alone: the doctor's own interpreter starts with the same variables.
MINE = "import os; 'ASCEND_DOCTOR_RECORD' in os.environ and print('mine')"
Compare = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def compare(examined_python: Path, tmp_path: Path) -> Compare:
    (tmp_path / "train.py").write_text(TRAIN)

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [DOCTOR, "compare", "--python", str(examined_python), *arguments]
        return run_program(command, check=False, timeout=600, cwd=tmp_path, **options)

    return run


SIMULATED = ("--device", "simulated", "--npus", "1")
JOB = ("--", "python", "train.py")


def test_a_healthy_job_is_silent_and_its_dumps_are_kept(compare: Compare, tmp_path: Path) -> None:
    done = compare(*SIMULATED, "--keep", "dumps", *JOB)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = (tmp_path / "dumps" / "npu" / "rank-0.jsonl").read_text()
    head, *rows = map(json.loads, text.splitlines())
    assert (head["device"], head["simulated"]) == ("npu", True)
    assert {row["step"] for row in rows[:-1]} == {0, 1, 2}
    assert rows[-1] == {"end": True, "records": len(rows) - 1, "steps": 3}
    assert "trained" in (tmp_path / "ascend-doctor-compare-cpu.log").read_text()
    again = compare(*SIMULATED, "--keep", "dumps", *JOB)
    assert again.returncode == 2
    assert "not empty" in again.stderr


def test_the_code_that_made_a_difference_is_named(compare: Compare) -> None:
    done = compare(*SIMULATED, *JOB, "fault")
    assert done.returncode == 1
    assert done.stdout.startswith("✗ Net: the CPU and the simulated NPU part here\n")
    assert "input 0 of Net.last" in done.stdout


def test_a_run_that_fails_is_told(compare: Compare) -> None:
    done = compare(*SIMULATED, *JOB, "fail")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "the run on the simulated NPU failed; nothing is compared" in done.stderr
    assert "it ended with 7" in done.stderr


def test_a_job_that_cannot_do_without_an_npu_is_told_so(compare: Compare, tmp_path: Path) -> None:
    done = compare(*SIMULATED, *JOB, "always")
    assert done.returncode == 3
    assert "the run on the CPU failed" in done.stderr
    assert (
        "torch.npu.set_device: this is the run on the CPU, without an NPU"
        in (tmp_path / "ascend-doctor-compare-cpu.log").read_text()
    )


def test_a_job_that_takes_an_npu_where_there_is_one_is_compared(compare: Compare) -> None:
    done = compare(*SIMULATED, *JOB, "asks")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = compare(*SIMULATED, *JOB, "asks", "fault")
    assert done.stdout.startswith("✗ Net: the CPU and the simulated NPU part here\n")


def test_a_job_that_stays_on_the_cpu_is_no_comparison(compare: Compare) -> None:
    done = compare(*SIMULATED, *JOB, "never")
    assert done.returncode == 2
    assert "computed on cpu where it should have on the simulated NPU" in done.stderr
    assert "ASCEND_DOCTOR_DEVICE" in done.stderr


def test_what_calls_no_module_is_no_comparison(compare: Compare) -> None:
    done = compare(*SIMULATED, "--", "true")
    assert done.returncode == 2
    assert "nothing was recorded on the CPU" in done.stderr


def test_there_is_no_silent_fall_back_from_an_npu(compare: Compare) -> None:
    if list(Path("/dev").glob("davinci[0-9]*")):
        pytest.skip("this machine has an NPU")
    done = compare("--device", "npu", *JOB)
    assert done.returncode == 2
    assert "this machine has no NPU" in done.stderr


def test_two_runs_are_recorded_and_compared(compare: Compare, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(MINE)
    env = {"PATH": "/usr/bin:/bin", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    env["PYTHONPATH"] = str(tmp_path / "site")
    for name in ("first", "second"):
        done = compare("--record", name, "--steps", "1", *JOB, env=env)
        assert (done.returncode, done.stdout) == (0, "mine\ntrained\n")
    done = compare("first", "second")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    other = compare("--record", "third", "--seed", "5", "--steps", "1", *JOB, env=env)
    assert other.returncode == 0
    done = compare("first", "third")
    assert done.returncode == 1
    assert "✗ Net.first: A and B part here" in done.stdout
    assert "initial weight Net.first.weight" in done.stdout


NAMES = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import torch
from ascend_recorder.naming import Naming

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.Linear(2, 2))

def wrap(module, name):
    outer = type(name[0], (torch.nn.Module,), {})()
    setattr(outer, name[1], module)
    return outer

net = Net()
layer = net.layer
net.layer = wrap(layer, ("Divided", "_fsdp_wrapped_module"))
model = wrap(wrap(net, ("Divided", "_fsdp_wrapped_module")), ("Copied", "module"))
layer[0].weight.main_param = layer[0].weight.detach().double()
naming = Naming()
for module in (model, net, net.layer, layer, layer[0]):
    print(naming.name(module, [model]))
print(naming.parameter(layer[0].weight), naming.parameter(layer[0].weight.main_param))
print(len(list(naming.parameters())), naming.parameter(torch.zeros(1)))
"""


def _ask_recorder(python: Path, program: str) -> list[str]:
    done = run_program(
        [python, "-c", program, RECORDER], env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    )
    return done.stdout.splitlines()


def test_names_are_without_wrappers(examined_python: Path) -> None:
    """Also those of the single-precision copies of Megatron-LM's optimizer."""
    assert _ask_recorder(examined_python, NAMES) == [
        "Copied",
        "Net",
        "Net.layer.<Divided>",
        "Net.layer",
        "Net.layer.0",
        "Net.layer.0.weight Net.layer.0.weight",
        "2 None",
    ]


SIGNAL = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import torch
torch.Tensor.double = torch.Tensor.float  # as torch_npu does
from ascend_recorder.watching import _signal
for gradient in ([0.0, 0.0], [1e-30, 0.0], [1.0, 1e-3]):
    print(*(round(x, 2) for x in _signal(torch.tensor(gradient)).tolist()))
"""


def test_what_is_noise_in_a_gradient_is_told_in_single_precision_too(examined_python: Path) -> None:
    assert _ask_recorder(examined_python, SIGNAL) == ["0.0 0.0", "1.0 0.0", "1.0 0.0"]


SIGNS = """
import sys
sys.path[:0] = sys.argv[1].split(":")
from ascend_recorder.measures import signs
print(signs(0, 50).int().tolist() == [row[:50] for row in signs(0, 300).int().tolist()])
print(*signs(200, 40).int().flatten().tolist())
"""


def documented_sign(element: int, projection: int) -> int:
    """The sign as docs/compare.md defines it."""

    def signed(number: int) -> int:
        return (number + (1 << 63)) % (1 << 64) - (1 << 63)

    number = signed((element + 1) * 0x9E3779B97F4A7C15)
    number = signed((number ^ number >> 30) * 0xBF58476D1CE4E5B9)
    number = signed((number ^ number >> 27) * 0x94D049BB133111EB)
    number ^= number >> 31
    return -1 if number >> (8 + projection) & 1 else 1


def test_projections_are_those_of_the_documentation(examined_python: Path) -> None:
    same, numbers = _ask_recorder(examined_python, SIGNS)
    assert same == "True"
    assert list(map(int, numbers.split())) == [
        documented_sign(element, projection)
        for projection in range(8)
        for element in range(200, 240)
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "append the command after"),
        (("no-such-program",), "no such program"),
        ((".", "."), "no dump"),
        ((".",), "two dumps"),
        (("--tolerance", "x=1", "true"), "--tolerance x=1"),
    ],
)
def test_bad_usage_is_a_line(compare: Compare, arguments: tuple[str, ...], text: str) -> None:
    done = compare(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
