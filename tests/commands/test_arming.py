"""What a launch is started with so that its log can say who did not come."""

import sys
from pathlib import Path

import pytest

from ascend_doctor.commands.arming import watchdog_variables
from tests.commands.test_run import run

REPORT = {"TORCH_HCCL_DESYNC_DEBUG": "1"}
ENVIRONMENT = {"PATH": "/usr/bin"}


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("torchrun --nproc-per-node 8 train.py", {}),
        ("/opt/venv/bin/torchrun --standalone --nnodes=1 train.py", {}),
        ("python3 -m torch.distributed.run --nproc_per_node=8 train.py", {}),
        ("megatron sft --model x", {}),
        ("swift sft --model x", {"NNODES": "1"}),
    ],
)
def test_a_launch_of_one_node_reports_who_did_not_join(
    command: str, environment: dict[str, str]
) -> None:
    assert watchdog_variables(command.split(), ENVIRONMENT | environment) == REPORT


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("torchrun --nnodes 2 --nproc-per-node 8 train.py", {}),
        ("torchrun --nnodes=1:4 train.py", {}),
        ("torchrun --nnodes=$N train.py", {}),
        ("torchrun train.py", {"PET_NNODES": "2"}),
        ("megatron sft --model x", {"NNODES": "4"}),
        ("python -m torch.distributed.run --nnodes 16 train.py", {}),
        # The number of nodes is unknown.
        ("srun torchrun train.py", {}),
        ("bash train.sh", {}),
        ("python train.py", {}),
        ("python -m torch.distributed", {}),
    ],
)
def test_where_more_nodes_may_be_nothing_is_changed(
    command: str, environment: dict[str, str]
) -> None:
    assert watchdog_variables(command.split(), ENVIRONMENT | environment) == {}


@pytest.mark.parametrize(
    "name",
    [
        "TORCH_HCCL_DESYNC_DEBUG",
        "HCCL_DESYNC_DEBUG",
        "TORCH_HCCL_ASYNC_ERROR_HANDLING",
        "HCCL_ASYNC_ERROR_HANDLING",
        "TORCH_HCCL_BLOCKING_WAIT",
    ],
)
@pytest.mark.parametrize("value", ["0", "1", ""])
def test_what_the_user_set_stays(name: str, value: str) -> None:
    assert watchdog_variables(["torchrun", "train.py"], {name: value}) == {}


@pytest.mark.slow
def test_the_launch_is_started_with_it_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(
        f"#!{sys.executable}\nimport os\nprint(os.environ.get('TORCH_HCCL_DESYNC_DEBUG'))\n"
    )
    torchrun.chmod(0o755)
    for name in ("TORCH_HCCL_DESYNC_DEBUG", "PET_NNODES"):
        monkeypatch.delenv(name, raising=False)
    done = run("--", str(torchrun), "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr.count("\n") == 1
    assert "TORCH_HCCL_DESYNC_DEBUG=1" in done.stderr
    monkeypatch.setenv("TORCH_HCCL_DESYNC_DEBUG", "0")
    done = run("--", str(torchrun), "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
