"""Runs jobs on simulated NPUs, and on the CPU: Megatron-LM's pretrain_gpt.py, and own scripts."""

import json
import math
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tests.acceptance import clones, needs
from tests.acceptance.rehearsals.model_options import MODEL
from tests.knobs import record_path
from tests.programs import run_program

MINDSPEED, MEGATRON = "Ascend/MindSpeed", "NVIDIA/Megatron-LM"
PYTHON = needs.first_path("training-python")
DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
PLAIN = str(Path(__file__).with_name("plain_cpu.py"))
STEPS = 10
# Otherwise torch compiles what Megatron marks, which takes longer than the job.
ON_CPU = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHDYNAMO_DISABLE": "1"}
# Ours: Megatron-LM and MindSpeed stay unchanged.
ENTRY = """
import mindspeed.megatron_adaptor, runpy, sys
sys.argv[0] = {script!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LOSS = re.compile(r"\| lm loss: ([0-9.E+-]+)")
TIME = re.compile(r"elapsed time per iteration \(ms\): ([0-9.]+)")


class JobRun(NamedTuple):
    """What a run printed: the median of its later steps in ms, processor seconds."""

    losses: list[float]
    step: float
    seconds: float
    cpu: float
    standard_error: str


def unpack(folder: Path, megatron: str, mindspeed: str) -> None:
    clones.unpack(folder, MEGATRON, megatron, "megatron", ":(glob)*.py")
    clones.unpack(folder, MINDSPEED, mindspeed, "mindspeed")
    compile_helpers(folder)
    (folder / "entry.py").write_text(ENTRY.format(script=str(folder / "pretrain_gpt.py")))


def compile_helpers(folder: Path) -> None:
    """Those of Megatron-LM's data sets, which it otherwise does at its first run."""
    where = "import pybind11, sysconfig as s; print(pybind11.get_include(), s.get_path('include'))"
    includes = [f"-I{include}" for include in _ask(where).split()]
    suffix = _ask("import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
    options = ("-O3", "-shared", "-std=c++17", "-fPIC", *includes)
    subprocess.run(
        ["g++", *options, "helpers.cpp", "-o", f"helpers_cpp{suffix}"],
        check=True,
        cwd=folder / "megatron/core/datasets",
        timeout=300,
    )


def rehearse(stack: Path, folder: Path, arguments: str, steps: int = STEPS) -> JobRun:
    return rehearse_options(stack, folder, "entry.py", _job(arguments, steps))


def rehearse_options(stack: Path, folder: Path, script: str, options: list[str]) -> JobRun:
    doctor = (DOCTOR, "rehearse", "--python", PYTHON, "--npus", "4", "--")
    command = _torchrun(str(stack / script), "--distributed-backend", "nccl", *options)
    return _run([*doctor, *command], stack, folder, {})


def run_on_cpu(stack: Path, folder: Path, arguments: str, steps: int = STEPS) -> JobRun:
    return run_options_on_cpu(stack, folder, _job(arguments, steps))


def run_options_on_cpu(stack: Path, folder: Path, options: list[str]) -> JobRun:
    script = (PLAIN, str(stack / "pretrain_gpt.py"), "--distributed-backend", "gloo")
    command = _torchrun(*script, *options, "--no-persist-layer-norm")
    path = f"{Path(PYTHON).parent}:{os.environ['PATH']}"
    return _run(command, stack, folder, {**ON_CPU, "PATH": path})


def record(row: dict[str, object]) -> None:
    """Add to tests/simulator/fidelity.json, if requested."""
    if path := record_path("jobs.jsonl"):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def row(release: str, job: str, layout: str, expected: JobRun, seen: JobRun) -> dict[str, object]:
    """Each pair: the simulated NPUs, then the CPU."""
    apart = max(
        (
            abs(loss - other) / other
            for loss, other in zip(seen.losses, expected.losses, strict=True)
        ),
        default=math.nan,
    )
    return {
        "release": release,
        "job": job,
        "layout": layout,
        "losses": [seen.losses[0], seen.losses[-1]],
        "expected": [expected.losses[0], expected.losses[-1]],
        "apart": apart,
        "step": [seen.step, expected.step],
        "seconds": [seen.seconds, expected.seconds],
        "cpu": [seen.cpu, expected.cpu],
    }


def _job(arguments: str, steps: int) -> list[str]:
    return [*MODEL, "--train-iters", str(steps), *shlex.split(arguments)]


def _torchrun(*words: str) -> list[str]:
    torchrun = ("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
    return [*torchrun, *words]


def _run(command: list[str], stack: Path, folder: Path, env: dict[str, str]) -> JobRun:
    start, used = time.time(), processor_seconds()
    done = run(command, stack, folder, env)
    seconds, cpu = time.time() - start, processor_seconds() - used
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    times = [float(text) for text in TIME.findall(done.stdout)]
    losses = [float(text) for text in LOSS.findall(done.stdout)]
    step = statistics.median(times[1:])
    return JobRun(losses, step, seconds, cpu, done.stderr)


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(
    command: list[str], stack: Path, folder: Path, env: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    return run_program(command, check=False, timeout=3600, cwd=folder, env=environment(stack, env))


def environment(stack: Path, env: Mapping[str, str]) -> dict[str, str]:
    # make finds what was compiled only by the interpreter's python3-config.
    config = Path(_ask("import sys; print(sys.base_prefix)")) / "bin"
    return {
        **os.environ,
        "PATH": f"{config}:{os.environ['PATH']}",
        "PYTHONPATH": str(stack),
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "OMP_NUM_THREADS": "1",
        **env,
    }


def _ask(code: str) -> str:
    return run_program([PYTHON, "-c", code]).stdout.strip()
