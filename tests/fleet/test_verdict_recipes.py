"""The recipes of docs/diagnose.md, as they stand there: Slurm by a real one."""

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from ascend_doctor.cli import doctor
from ascend_doctor.exits import EXIT_EXCLUDE, EXIT_RESTART, EXIT_STOP
from tests.fleet.slurm_cluster import SlurmCluster, missing, slurm_cluster

GONE = missing()
_REQUEUED = 5.0
PAGE = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text("utf-8")
# What ranks print in each attempt: a hang, a defect of the first node, a code error. A failing rank
# ends the other, which must have begun by then.
TRAIN = """#!/bin/bash
number=${attempt##*-}
rank=$SLURM_PROCID
until [ "$(ls "$attempt" | wc -l)" = 2 ]; do sleep 0.1; done
echo "[rank$rank]: iteration        $((number + 5))/     100 | lm loss: 2.3"
case $number in
0) echo "[rank$rank]: EI0006: 2026-03-01-10:02:05.270.506 Getting socket times out."; exit 1 ;;
1) [ "$rank" = 0 ] || exit 0
   echo "[rank0]: RuntimeError: NPU function error: HBM MULTI BIT ECC ERROR, error code is 507054"
   exit 1 ;;
2) echo "[rank$rank]: ValueError: sample 7 has no label"; exit 1 ;;
esac
"""


def block(language: str, word: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (text,) = [text for text in blocks if word in text]
    return str(text)


@pytest.fixture
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as running:
        yield running


@pytest.mark.slow
@pytest.mark.skipif(bool(GONE), reason=f"not installed: {', '.join(GONE)}")
def test_slurm_requeues_leaves_out_and_stops(cluster: SlurmCluster, tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    cluster.env["PATH"] = f"{programs}:{cluster.env['PATH']}"
    script, train = tmp_path / "job.sh", tmp_path / "train.sh"
    script.write_text(block("bash", "scontrol requeue"))
    train.write_text(TRAIN)
    train.chmod(0o755)
    job = tmp_path / "job"
    cluster.env |= {"JOB": str(job), "SCRIPT": str(script), "TRAIN": str(train)}
    cluster.ask("sbatch", f"--chdir={tmp_path}", f"--output={tmp_path}/out.txt", str(script))
    verdicts = job / "verdicts"

    pending: dict[str, float] = {}

    def is_decided(count: int) -> bool:
        # A requeued job waits two minutes. One that starts within the second is refused: its
        # credential is the previous run's.
        for row in cluster.ask("squeue", "--noheader", "-t", "PD", "-o", "%i").split():
            if time.monotonic() - pending.setdefault(row, time.monotonic()) > _REQUEUED:
                cluster.run("scontrol", "update", f"jobid={row}", "starttime=now", deadline=60)
        return verdicts.exists() and len(verdicts.read_text().splitlines()) >= count

    cluster.until(lambda: is_decided(3))
    lines = [row.split(": ", 1)[1] for row in verdicts.read_text().splitlines()]
    assert lines == ["restart", "exclude node1", "stop"]
    assert sorted(path.name for path in (job / "logs/restart-1").iterdir()) == [
        "node1.log",
        "node2.log",
    ]
    assert sorted(path.name for path in (job / "logs/restart-2").iterdir()) == [
        "node2.log",
        "node3.log",
    ]


def test_the_exit_codes_of_the_recipes_are_ours() -> None:
    manifest = yaml.safe_load(block("yaml", "podFailurePolicy"))
    rule, _ = manifest["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["values"] == [EXIT_STOP]
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert container["name"] == rule["onExitCodes"]["containerName"]
    assert f"RequeueExit={EXIT_RESTART}" in PAGE
    assert f"RequeueExitHold={EXIT_EXCLUDE}" in PAGE


def test_the_command_of_the_pod_is_one_of_ours() -> None:
    manifest = yaml.safe_load(block("yaml", "podFailurePolicy"))
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    name, *options = container["command"]
    assert name == "ascend-doctor"
    context = click.Context(doctor, info_name=name)
    command = doctor.get_command(context, options[0])
    assert command
    parsed = command.make_context(options[0], list(options[1:]), resilient_parsing=True)
    assert parsed.params["launch"] == ("torchrun", "--nproc-per-node", "8", "train.py")
    assert parsed.params["history"] == "/job/history"
