"""Runs jobs of frameworks on simulated NPUs, and on the CPU.

On the CPU plain/ replaces Transformer Engine, and plain_cpu.py answers for CUDA.
"""

import itertools
import re
import statistics
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.programs import on_cpu, run_program

HERE = Path(__file__).parent
SAME_START = str(HERE / "programs" / "same_start.py")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "MODELSCOPE_OFFLINE": "1"}


def tell_version(folder: Path, name: str, version: str) -> None:
    """Python finds a checkout in the folder as this distribution."""
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (metadata / "METADATA").write_text(text)


def make_model(family: str, folder: Path) -> Path:
    """A tiny model with weights, tokenizer and conversations."""
    run_program([jobs.PYTHON, HERE / "programs" / "tiny_model.py", family, folder], env=on_cpu())
    return folder


def rehearse(
    words: list[str], ranks: int, loss: re.Pattern[str], stack: Path, folder: Path
) -> jobs.JobRun:
    doctor = (jobs.DOCTOR, "rehearse", "--python", jobs.PYTHON, "--npus", str(ranks), "--")
    return _watch([*doctor, "python", *_torchrun(ranks), *words], loss, stack, folder, {})


def run_on_cpu(
    words: list[str], ranks: int, loss: re.Pattern[str], stack: Path, folder: Path
) -> jobs.JobRun:
    command = [jobs.PYTHON, *_torchrun(ranks), jobs.PLAIN, *words]
    env = {**jobs.ON_CPU, "PYTHONPATH": f"{stack}:{HERE / 'plain'}"}
    return _watch(command, loss, stack, folder, env)


def _torchrun(ranks: int) -> tuple[str, ...]:
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))


def _watch(
    command: list[str], loss: re.Pattern[str], stack: Path, folder: Path, env: Mapping[str, str]
) -> jobs.JobRun:
    """A job that tells losses but no times: a step ends when its loss is told."""
    start, used = time.time(), jobs.processor_seconds()
    losses, ends, lines = [], [], []
    with subprocess.Popen(
        ["timeout", "1800", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=jobs.environment(stack, {"PYTHONUNBUFFERED": "1", **_OFFLINE, **env}),
    ) as job:
        for line in job.stdout or ():
            lines.append(line)
            if match := loss.search(line):
                losses.append(float(match[1]))
                ends.append(time.time())
    output = "".join(lines)
    assert job.returncode == 0, output[-6000:]
    seconds, cpu = time.time() - start, jobs.processor_seconds() - used
    step = statistics.median(1000 * (end - at) for at, end in itertools.pairwise(ends))
    return jobs.JobRun(losses, step, seconds, cpu, output)
