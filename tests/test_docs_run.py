"""Every command that the documentation tells to type is run, and ends as its contract has it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ascend_doctor.cli import run as run_here
from ascend_doctor.provision import lock as locks
from tests.diagnosis.logs import catalog
from tests.docs_world import (
    DOCTOR,
    GIVEN,
    RUNS,
    TUTORIAL,
    Line,
    Run,
    blocks,
    lines,
    name_of,
    needs_of,
)  # fmt: skip
from tests.fleet.slurm_cluster import SlurmCluster, missing, slurm_cluster
from tests.machines.compose import build
from tests.precision.test_dumps import END, HEAD, ROW, write
from tests.programs import free_ports, run_program
from tests.provision import small_world
from tests.provision.small_world import World
from tests.test_packaging import build_wheel
from tests.test_testing import example
from tests.upkeep.test_upgrade import lock as upgraded_lock

NODES = ("node1", "node2", "node3", "node4")
_FAILURES = ("hccl-connect-timeout-ei0006", "npu-oom-torch")
_LAUNCH = "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2"
_SIZES = "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 4096"
_SCRIPT = f"#!/bin/bash\n{_LAUNCH} {_SIZES} --micro-batch-size 1 --global-batch-size 64 --bf16\n"
_MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
# A job for ranks on simulated NPUs, on the CPU, and by itself.
_TRAIN = """import os
import torch, torch.distributed as dist
simulated = "npu" if "ASCEND_DOCTOR_SIMULATED" in os.environ else "cpu"
kind = os.environ.get("ASCEND_DOCTOR_DEVICE", simulated)
if kind == "npu":
    import torch_npu
rank = int(os.environ.get("LOCAL_RANK", "0"))
device = torch.device(kind, rank) if kind == "npu" else torch.device("cpu")
many = "RANK" in os.environ
if many:
    dist.init_process_group("hccl" if kind == "npu" else "gloo")
net = torch.nn.Linear(8, 4).to(device)
optimizer = torch.optim.AdamW(net.parameters())
for step in range(3):
    loss = net(torch.ones(2, 8, device=device)).square().mean()
    loss.backward()
    if many:
        dist.all_reduce(net.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
    print({"loss": round(loss.item(), 4), "epoch": step}, flush=True)
if many:
    dist.destroy_process_group()
"""
_TORCHRUN = "torchrun --nnodes ${NNODES:-1} --node-rank ${NODE_RANK:-0} --nproc-per-node 2"
_LAUNCH_SH = (
    f"{_TORCHRUN} --master-addr ${{MASTER_ADDR:-127.0.0.1}} --master-port $MASTER_PORT train.py\n"
)
# The doctor, with a line's options behind its command's name; writes how it ended.
_STAND_IN = """#!/bin/bash
first=() name=${DOCS_NAME##* }
while [ $# -gt 0 ]; do
  first+=("$1"); shift
  [ "${first[-1]}" = "$name" ] && break
done
eval "given=($DOCS_GIVEN)"
"$DOCS_DOCTOR" "${first[@]}" "${given[@]}" "$@"
code=$?
echo $code >> "$WORLD/codes"
exit $code
"""
_PROGRAMS = {
    "ascend-doctor": _STAND_IN,
    # One task a node.
    "srun": '#!/bin/bash\nwhile [[ $1 != sh ]]; do shift; done\nexec "$@"\n',
    "sbatch": '#!/bin/bash\nexec bash -n "$1"\n',
    "kubectl": '#!/bin/bash\nsed "s,^,[pod/job-worker-0/train] ," "$WORLD/job/train.log"\n',
    "torchrun": "#!/bin/bash\necho trained\n",
    "scontrol": "#!/bin/bash\necho node1\n",
    "node": '#!/bin/bash\nexec "$DOCS_DOCTOR" "$@" --replay "$WORLD/machines/$SLURMD_NODENAME"\n',
    "python3": "#!/bin/bash\n"
    '[ "$1 $2" = "-m venv" ] || exec "${TORCH:-/usr/bin/python3}" "$@"\n'
    'mkdir -p "$3/bin" && touch "$3/bin/activate"\n',
    # Packages of a checkout are there.
    "pip": '#!/bin/bash\n[ "$2" = -q ] || exec "$PYTHON" -m pip "$@"\n',
    "pytest": '#!/bin/bash\nexec "$TORCH" -m pytest -k one_process "$@"\n',
}


@pytest.fixture(scope="session")
def prepared_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lines speak of and no command changes in place; tests work in copies of it."""
    folder = tmp_path_factory.mktemp("docs")
    job, home = folder / "job", folder / "home"
    for path in (job, home, folder / "log", folder / "media", folder / "programs"):
        path.mkdir()
    (home / "clones").mkdir()
    _write_programs(folder / "programs")
    (folder / "jobs/history").mkdir(parents=True)
    _write_machines(folder / "machines")
    _write_logs(job, home)
    _write_launches(job, home)
    _write_reports(folder / "machines", job)
    python = home / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python], check=True, timeout=120)
    return folder


def _write_programs(path: Path) -> None:
    for name, text in _PROGRAMS.items():
        (path / name).write_text(text)
        (path / name).chmod(0o755)


def _write_machines(folder: Path) -> None:
    folder.mkdir()
    for name in ("healthy-a2", "one-card-lost"):
        build(name, folder / name)
    for number, node in enumerate(NODES, 10):
        for path in build("healthy-a2", folder / node).rglob("*"):
            if path.is_file():
                text = path.read_text("utf-8").replace("a2-node-0", node)
                path.write_text(text.replace("192.0.2.", f"192.0.{number}."), "utf-8")


def _write_logs(job: Path, home: Path) -> None:
    text = "".join(f"[rank3]: {catalog().failures[name].example}\n" for name in _FAILURES)
    for file in (
        job / "train.log",
        job / "logs/rank3.log",
        job / "output/torchrun/x/attempt_0/3/stderr.log",
        job.parent / "jobs/logs/restart-0/node1.log",
        home / "ascend/log/train.log",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _write_launches(job: Path, home: Path) -> None:
    texts = {
        "train.sh": _SCRIPT,
        "train.py": _TRAIN,
        "test_npus.py": example(),
        "launch.sh": _LAUNCH_SH,
        "entry.py": "import torch\nimport torch_npu\n",
        "ppo.yaml": "trainer:\n  n_gpus_per_node: 8\n  nnodes: 1\n  device: npu\n",
        "job.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  containers:\n"
        "  - name: train\n    image: x\n    command: [bash, -c, 'torchrun train.py']\n"
        "    resources: {limits: {huawei.com/Ascend910: 8}, requests: {huawei.com/Ascend910: 8}}\n",
        "examples/pretrain.sh": "torchrun --standalone --nproc-per-node 4 train.py\n",
        "examples/pretrain_671b.sh": "torchrun --standalone --nproc-per-node 8 train.py"
        " --num-layers 61\n",
        "pretrain_235b.sh": "torchrun --standalone --nproc-per-node 4 train.py\n",
        "hosts.txt": "".join(f"{node}\n" for node in NODES),
    }
    for name, text in texts.items():
        (job / name).parent.mkdir(exist_ok=True)
        (job / name).write_text(text)
    (home / "models/mine").mkdir(parents=True)
    (home / "models/mine/config.json").write_text(json.dumps(_MODEL))


def _write_reports(machines: Path, job: Path) -> None:
    """By the product itself: reports, snapshots, a recording; dumps as it writes them."""
    (job / "reports").mkdir()

    def check(machine: str, *arguments: str) -> None:
        run_here(["check", "-q", "-l", "0", "--replay", str(machines / machine), *arguments])

    for node in NODES:
        check(node, "--no-redact", "--format", "json", "-o", str(job / "reports" / f"{node}.json"))
    check("healthy-a2", "--format", "json", "-o", str(job / "good.json"))
    check("one-card-lost", "--format", "json", "-o", str(job / "bad.json"))
    machine = ["--replay", str(machines / "healthy-a2")]
    run_here(["snapshot", *machine, "-o", str(job / "node7.json")])
    shutil.copytree(machines / "healthy-a2", job / "bug")
    write(job / "good", HEAD, ROW, END)
    write(job / "bad", HEAD, {**ROW, "projections": [1.5]}, END)
    locks.write(job / "current.lock", upgraded_lock())


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Repositories and packages to build stacks of, a prefix with one, and a bundle of it."""
    world = small_world.make(tmp_path_factory.mktemp("small"))
    world.setup("0.15.3", world.root / "prefix", "--bundle", world.root / "bundle")
    return world


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same for both architectures; nothing is built of it."""
    return small_world.make_for_two(tmp_path_factory.mktemp("both"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def docs_cluster() -> Iterator[SlurmCluster]:
    if missing():
        pytest.skip(f"not installed: {', '.join(missing())}")
    with slurm_cluster() as running:
        yield running


@pytest.fixture
def docs_folder(prepared_files: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "world"
    return Path(shutil.copytree(prepared_files, folder, symlinks=True))


def _environment(world: Path, line: Line, how: Run) -> dict[str, str]:
    name = name_of(line.call)
    programs = f"{world / 'programs'}:/usr/bin:/bin"
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("PIP_")},
        "WORLD": str(world),
        "HOME": str(world / "home"),
        "PATH": programs,
        "DOCS_DOCTOR": str(DOCTOR),
        "DOCS_NAME": name,
        "DOCS_GIVEN": f"{GIVEN.get(name, '')} {how.options}" if how.usual else how.options,
        # Set by a Slurm job and by the recipe of docs/diagnose.md.
        "SLURMD_NODENAME": "node1",
        "JOB": str(world / "jobs"),
        "nodes": "node1,node2",
        "attempt": str(world / "jobs/logs/restart-0"),
        "file": str(world / "verdict.json"),
        "MASTER_PORT": str(*free_ports()),
        **how.env,
    }


def _type(line: Line, how: Run, world: Path) -> str:
    text = line.typed
    for there, here in {
        **how.words,
        "/opt/doctor/bin/ascend-doctor": "ascend-doctor",
        "/opt/train/bin/python": f"{world}/home/venv/bin/python",
        "/var/log/ascend-doctor": f"{world}/log",
        "/media/": f"{world}/media/",
        "/job/history": f"{world}/history",
    }.items():
        text = text.replace(there, here)
    return text


UNIQUE = {line.typed.split(" #")[0].strip(): line for line in lines()}
# Lines that are not run. May only fall.
LEFT_OUT = 2


def _cases() -> Iterator[object]:
    for typed, line in UNIQUE.items():
        how = RUNS.get(line.call, Run())
        needs = needs_of(line, how)
        if typed.endswith("| source"):
            how = replace(how, shell="fish")
        if how.codes:
            yield pytest.param(line, how, needs, id=typed)


def test_no_line_is_passed_over() -> None:
    left_out = {call: how for call, how in RUNS.items() if not how.codes}
    assert all(how.why for how in RUNS.values() if how.codes != (0,))
    assert len(UNIQUE) > 20
    assert len(left_out) <= LEFT_OUT
    assert len(UNIQUE) - len(left_out) == len([*_cases()])


def test_every_block_is_a_script() -> None:
    for page, language, block in blocks():
        if language == "bash":
            done = run_program(["bash", "-n"], check=False, input=block)
            assert not done.stderr, (page.name, done.stderr)


def test_every_row_is_of_a_line() -> None:
    assert set(RUNS) <= {line.call for line in lines()}


def _prepare_torch(world: Path, python: Path) -> dict[str, str]:
    (world / "programs/torchrun").unlink()
    shutil.rmtree(world / "home/venv")
    (world / "home/venv").symlink_to(python.parent.parent)
    path = f"{world / 'programs'}:{python.parent}:/usr/bin:/bin"
    return {"TORCH": str(python), "VIRTUAL_ENV": str(python.parent.parent), "PATH": path}


def _prepare_wheels(world: Path, wheels: Path) -> dict[str, str]:
    """pip has no index, and takes the doctor as this tree builds it, without its requirements."""
    shutil.copytree(wheels, world / "media/doctor")
    links, target = str(world / "media/doctor"), str(world / "site")
    no = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_CONFIG_FILE": os.devnull}
    return {**no, "PIP_FIND_LINKS": links, "PIP_TARGET": target, "PYTHON": sys.executable}


def _prepare_small(world: Path, small: World, name: str) -> dict[str, str]:
    if name != "setup":
        (world / "home/stack").symlink_to(small.root / "prefix")
    elif (bundle := small.root / "bundle").is_dir():
        shutil.copytree(bundle, world / "media/stack")
        shutil.copy(bundle / locks.FILE, world / "job")
    pips = {key: value for key, value in small.env.items() if key.startswith(("PIP_", "GIT_"))}
    return {**pips, "SMALL": str(small.root), "ASCEND_DOCTOR_PREFIX": str(world / "home/stack")}


def _write_stack(prefix: Path, python: Path) -> None:
    stack = prefix / "stacks/mine"
    stack.mkdir(parents=True)
    lock = locks.Lock(
        tool_version="0",
        id="mine",
        created_at="2026-01-01T00:00:00Z",
        wish={"megatron": "0.15.3"},
        python=locks.BasePython(version="3", tag="cp3", arch="any"),
        checkouts=(),
        pythonpath=(),
        wheels=(),
        settings=(),
        venv=str(python.parent.parent),
    )
    locks.write(stack / locks.FILE, lock)
    locks.Prefix(prefix).switch("mine")


def _command(typed: str, how: Run, needs: tuple[str, ...]) -> list[str]:
    call = [how.shell, "-c", typed]
    return ["script", "-qec", shlex.join(call), "/dev/null"] if "terminal" in needs else call


@pytest.mark.slow
@pytest.mark.parametrize(("line", "how", "needs"), [*_cases()])
def test_what_is_told_to_type_runs(
    line: Line, how: Run, needs: tuple[str, ...], docs_folder: Path, request: pytest.FixtureRequest
) -> None:
    if shutil.which(how.shell) is None:
        pytest.skip(f"not installed: {how.shell}")
    env = _environment(docs_folder, line, how)
    for need, fixture in (("torch", "examined_python"), ("simulated", "simulated_python")):
        if need in needs:
            env |= _prepare_torch(docs_folder, request.getfixturevalue(fixture))
    if "prefix" in needs:
        _write_stack(docs_folder / "home/stack", request.getfixturevalue("simulated_python"))
    for name in ("small", "both"):
        if name in needs:
            small = request.getfixturevalue(name)
            env |= _prepare_small(docs_folder, small, name_of(line.call))
    if "wheels" in needs:
        env |= _prepare_wheels(docs_folder, request.getfixturevalue("wheels"))
    if "slurm" in needs:
        cluster = request.getfixturevalue("docs_cluster")
        (docs_folder / "programs/srun").unlink()
        (docs_folder / "programs/sbatch").unlink()
        env["SLURM_CONF"] = cluster.env["SLURM_CONF"]
        env["PATH"] += ":/usr/sbin:/sbin"
    done = run_program(
        _command(_type(line, how, docs_folder), how, needs),
        check=False,
        timeout=900,
        cwd=docs_folder / "job",
        env=env,
        stdin=subprocess.DEVNULL,
    )
    output = done.stdout + done.stderr
    codes = [done.returncode]
    if line.call.startswith("ascend-doctor"):
        codes = [int(code) for code in (docs_folder / "codes").read_text().split()]
    assert codes, output
    assert set(codes) <= set(how.codes), (codes, output)
    assert done.returncode in codes, output
    # An agent of torchrun logs one if another has closed the store of their exit barrier.
    assert "Traceback" not in re.sub(r"api\.py:\d+\] Traceback", "", output)
    assert "No such option" not in output
    assert "command not found" not in output


@pytest.mark.slow
def test_the_tutorial_can_be_followed(tmp_path: Path, examined_python: Path) -> None:
    env = {**os.environ, "PATH": f"{DOCTOR.parent}:{examined_python.parent}:{os.environ['PATH']}"}
    env["COLUMNS"] = "100"
    printed = ""
    for language, text in re.findall(r"```(bash|text)\n(.*?)```", TUTORIAL.read_text(), re.DOTALL):
        if language == "text":
            assert not [row for row in text.splitlines() if row not in printed], printed
            continue
        done = run_program(["bash", "-c", text], check=False, cwd=tmp_path, env=env)
        printed = done.stdout + done.stderr
