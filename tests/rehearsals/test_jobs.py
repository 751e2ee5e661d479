"""Megatron-LM's own pretrain_gpt.py with MindSpeed, unmodified, on simulated NPUs.

ASCEND_DOCTOR_TEST_MINDSPEED and ASCEND_DOCTOR_TEST_MEGATRON_LM name repositories of both;
ASCEND_DOCTOR_TEST_JOBS_PYTHON an interpreter with torch 2.7.1 (tests/simulator/cpu_torch.py makes
one for x86_64), torch_npu 2.7.1.post4 and what megatron.training imports. One to two minutes each.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

MINDSPEED = os.environ.get("ASCEND_DOCTOR_TEST_MINDSPEED", "")
MEGATRON = os.environ.get("ASCEND_DOCTOR_TEST_MEGATRON_LM", "")
PYTHON = os.environ.get("ASCEND_DOCTOR_TEST_JOBS_PYTHON", "")
pytestmark = pytest.mark.skipif(
    not (MINDSPEED and MEGATRON and PYTHON),
    reason="ASCEND_DOCTOR_TEST_MINDSPEED, _MEGATRON_LM and _JOBS_PYTHON name no stack",
)
DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
TAGS = {"core_v0.12.1": "2.3.0_core_r0.12.1", "core_v0.15.3": "core_r0.15.3"}
MODEL = shlex.split(
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64"
    " --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 --train-iters 10"
    " --lr 1e-4 --min-lr 1e-5 --lr-decay-style constant --mock-data --tokenizer-type NullTokenizer"
    " --vocab-size 1000 --transformer-impl local --log-interval 1 --eval-iters 1"
    " --eval-interval 100 --no-gradient-accumulation-fusion --distributed-backend nccl"
    " --disable-bias-linear --use-mcore-models --bf16"
)
EXPERTS = (
    "--tensor-model-parallel-size 2 --expert-model-parallel-size 2 --num-experts 4"
    " --moe-router-topk 2 --sequence-parallel --moe-token-dispatcher-type alltoall"
)
DENSE = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
# What they log at the first and the tenth step, seen on 2026-11-22 with both releases.
JOBS = {
    "dense": (DENSE, 6.707931, 6.656655),
    "distributed optimizer": (f"{DENSE} --use-distributed-optimizer", 6.707931, 6.656655),
    "experts": (EXPERTS, 6.698804, 6.658619),
    "context": (
        "--tensor-model-parallel-size 2 --context-parallel-size 2",
        *(6.706923, 6.660679),
    ),
}
LOSS = re.compile(r"\| lm loss: ([0-9.E+-]+)")
# The tests' own: no line of Megatron-LM or MindSpeed is changed.
ENTRY = """
import mindspeed.megatron_adaptor, runpy, sys
sys.argv[0] = {script!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# bfloat16 has 8 bits: what two orders of a sum make of the loss after ten steps of this model.
BFLOAT16 = 2e-5


@pytest.fixture(scope="module", params=TAGS)
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both checkouts and the entry file, Megatron-LM's helpers compiled."""
    folder = tmp_path_factory.mktemp(request.param)
    for repository, ref in ((MEGATRON, request.param), (MINDSPEED, TAGS[request.param])):
        command = ["git", "-C", repository, "archive", ref]
        archive = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
        subprocess.run(["tar", "x", "-C", folder], check=True, input=archive, timeout=120)
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
    (folder / "entry.py").write_text(ENTRY.format(script=str(folder / "pretrain_gpt.py")))
    return folder


def _ask(code: str) -> str:
    return subprocess.run(
        [PYTHON, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


@pytest.mark.parametrize("job", JOBS)
def test_pretraining_runs_through(stack: Path, tmp_path: Path, job: str) -> None:
    arguments, first, last = JOBS[job]
    # make finds what was compiled only by the python3-config of the interpreter.
    config = Path(_ask("import sys; print(sys.base_prefix)")) / "bin"
    done = subprocess.run(
        [
            *(DOCTOR, "rehearse", "--python", PYTHON, "--npus", "4", "--"),
            *("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"),
            *(str(stack / "entry.py"), *MODEL, *shlex.split(arguments)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{config}:{os.environ['PATH']}",
            "PYTHONPATH": str(stack),
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    losses = [float(text) for text in LOSS.findall(done.stdout)]
    assert len(losses) == 10
    assert losses[0] == pytest.approx(first, rel=BFLOAT16)
    assert losses[-1] == pytest.approx(last, rel=BFLOAT16)
    assert "simulated: 10 steps, lm loss " in done.stderr
