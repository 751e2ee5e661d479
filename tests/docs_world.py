"""The documentation's commands, and how tests/test_docs_run.py runs each of them.

Of first pages and how-tos that is every line, elsewhere each with a call of the doctor.

Bash runs a line as written, beside what it names: logs, scripts, recorded machines, reports that
the product wrote, a prefix with a stack, programs of clusters. ``RUNS`` has what is particular
about a line; any other line has to end with 0.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("README.*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
DOCTOR = Path(sys.executable).with_name("ascend-doctor")
_WHOLE = ("README", "index", "how-")
TUTORIAL = ROOT / "docs/tutorial.md"
_BLOCK = re.compile(r"^ *```(bash|shell|sh|yaml|groovy)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"ascend-doctor(?:, | )(?:'[^'\n]*'|>=|[^\n;'#)&|>`])*")


class Line(NamedTuple):
    """``call`` is the doctor's part of what is told to type, ``typed`` the whole of it."""

    page: str
    call: str
    typed: str


def lines() -> list[Line]:
    """What is run, with its page."""
    return [
        Line(page.name, " ".join(call.split()), typed)
        for page, language, block in blocks()
        if page != TUTORIAL  # followed as a whole
        for call, typed in (
            _of_yaml(block)
            if language == "yaml"
            else _of_shell(block, whole=page.name.startswith(_WHOLE))
        )
    ]


def blocks() -> Iterator[tuple[Path, str, str]]:
    """Blocks of code with their page and language."""
    for page in PAGES:
        for language, block in _BLOCK.findall(page.read_text("utf-8")):
            yield page, language, block


def _of_shell(block: str, *, whole: bool) -> Iterator[tuple[str, str]]:
    """In Groovy, too, a line is a shell's; only what stands between its quotes is typed."""
    for row in re.sub(r" *\\\n *", " ", block).splitlines():
        typed = row.strip().removeprefix("sh '").removesuffix("'") if row[:4] == "sh '" else row
        calls = _CALL.findall(row)
        if whole and not calls and (other := row.partition("#")[0].strip()):
            calls = [other]
        yield from ((call, typed.strip()) for call in calls)


def _of_yaml(block: str) -> Iterator[tuple[str, str]]:
    """A command is a text, or a list of words; comments name some."""
    for call in _leaves(yaml.safe_load(block)):
        yield call, call
    yield from ((call, call) for call in re.findall("`(ascend-doctor [^`]*)`", block))


def _leaves(value: object) -> Iterator[str]:
    match value:
        case ["ascend-doctor", *words]:
            yield shlex.join(["ascend-doctor", *map(str, words)])
        case list(values):
            yield from (call for value in values for call in _leaves(value))
        case dict(fields):
            yield from (call for field in fields.values() for call in _leaves(field))
        case str(text) if text.startswith("ascend-doctor "):
            yield text


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a line is run here, and what it has to end with.

    ``options`` are those that the stand-in puts behind the command's name, with those of ``GIVEN``
    where they are ``usual``; ``codes`` is what the contract has for this situation, and ``why``
    says why that is not 0, or, where there is none, why the line is not run. ``needs`` names what
    of torch, torch_npu that has a simulated NPU, a small world of packages, the doctor's wheel,
    Slurm and a terminal it takes;
    ``words`` are replaced.
    """

    options: str = ""
    usual: bool = True
    codes: tuple[int, ...] = (0,)
    why: str = ""
    needs: tuple[str, ...] = ()
    shell: str = "bash"
    env: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


_HEALTHY = '--replay "$WORLD/machines/healthy-a2"'
# By the name of a command: what its lines are given where a line says nothing of its own.
GIVEN = {
    "check": f"-l 0 {_HEALTHY}",
    "snapshot": _HEALTHY,
    "run": _HEALTHY,
    "fix": '-l 0 --python "$WORLD/home/venv/bin/python"',
    "fleet check": '--level 0 --doctor "$WORLD/programs/node"',
    "setup": '--matrix "$SMALL/rows" --git-mirror "$SMALL/mirrors" --yes --prove 0'
    f" --python {shlex.quote(sys.executable)}",
    "rehearse": '--python "$TORCH"',
    "compare": '--python "$TORCH"',
    "matrix upgrade": '--lock "$WORLD/job/current.lock"',
}
# By the name of a command: what all its lines take.
NEEDS = {
    "setup": ("small",),
    "env": ("small",),
    "rehearse": ("simulated",),
    "compare": ("torch",),
    "fleet check": ("slurm",),
}
_LEVEL = "a recorded machine has facts only, and a higher level is asked for"
_FAILED = Run(codes=(1,), why="the log has a failure")
_STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NODELIST": "node1",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NUM_TASKS": "1",
}
_TORCH = '--python "$TORCH"'
# The whole check takes minutes, and tests/commands/test_rehearse.py runs its levels.
_CHECKED = Run(options="--only allreduce --nproc 2")
_FEWER = {"--npus 8": "--npus 2", "--nproc-per-node 8": "--nproc-per-node 2"}
_RECORDED = Run(
    words={"--record ": "--record new-", **_FEWER},
    # torch_npu is installed, and this machine has no CANN.
    env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
)
_SET_UP = Run(codes=(1,), why="the proof finds that this machine lacks CANN and a real torch")
_NEW = {"/media/stack": "$WORLD/media/new"}
_WHEELS = Run(needs=("wheels",))
_UPGRADE = Run(codes=(1,), why="something breaks with the newer Megatron")
# By the doctor's part of a line.
RUNS = {
    f"ascend-doctor {call}": how
    for call, how in {
        "lint --exact train.sh": Run(codes=(2,), why="torch_npu is asked for, and absent here"),
        "hang": Run(
            codes=(0, 1, 2, 3), why="what runs beside; tests/commands/test_hang.py starts jobs"
        ),
        "plan train.sh": Run(codes=(3,), why="the script names no vocabulary"),
        "check -l 1": Run(
            usual=False, options=_TORCH, needs=("torch",), codes=(1,), why="torch_npu without CANN"
        ),
        "check --device cpu --nproc 4": Run(
            usual=False, options=f"{_TORCH} --only allreduce", needs=("simulated",)
        ),
        # All four nodes at once.
        "check --nnodes 4 --node-rank 0 --rdzv-endpoint node0:29400 --only pair-rounds": Run(
            usual=False,
            options=f"{_TORCH} --device cpu",
            needs=("simulated",),
            codes=(0, 3),
            why="four nodes on one machine wait for each other's processors",
            words={
                "node0:29400": "127.0.0.1:$MASTER_PORT",
                "ascend-doctor": "for rank in 0 1 2 3; do ascend-doctor",
                "--node-rank 0": "--node-rank $rank",
                "pair-rounds": "pair-rounds & done; wait",
            },
        ),
        "fleet check --ray auto --nodes 4": Run(
            codes=(), why="takes a cluster of Ray; tests/fleet/test_ray_cluster.py runs the command"
        ),
        "fleet check --slurm --nodes 4 --level 2 --lists . -- --partition npu --gres npu:8": Run(
            codes=(3,), why=_LEVEL, words={"npu --gres npu:8": "all"}
        ),
        'fleet check --slurm --reports "$folder/nodes" --lists "$folder" --format json'
        ' -o "$folder/report.json"': Run(options="--nodes 4", env={"folder": "."}),
        "rehearse": _CHECKED,
        "rehearse --machine a3-16 --inject rank-hangs:rank=2": Run(
            options="--only allreduce --nproc 4", codes=(1,), why="a rank hangs"
        ),
        "rehearse --inject list": Run(usual=False),
        "rehearse --prefix ~/stack": Run(
            usual=False, options=_CHECKED.options, needs=("simulated", "prefix")
        ),
        "rehearse --prefix ~/stack --npus 4 -- bash examples/pretrain.sh": Run(
            usual=False, needs=("simulated", "prefix")
        ),
        # 16 ranks take a minute of 16 processors.
        "rehearse --nodes 2 --npus 8 -- torchrun --nproc-per-node 8 train.py": Run(words=_FEWER),
        "compare --device npu -- torchrun --nproc-per-node 8 train.py": Run(
            codes=(2,), why="this machine has no NPU"
        ),
        "compare --record good -- torchrun --nproc-per-node 8 train.py": _RECORDED,
        "compare --record bad -- torchrun --nproc-per-node 8 train.py": _RECORDED,
        "compare good bad": Run(usual=False, codes=(1,), why="they differ"),
        'check -l 2 --no-redact --format json -o "reports/$SLURMD_NODENAME.json"': Run(
            codes=(3,), why=_LEVEL
        ),
        "check --gang": Run(env=_STEP),
        'check --gang --no-redact --format json -o "reports/$SLURMD_NODENAME.json"': Run(env=_STEP),
        "check -l 0 --show-redacted": Run(needs=("terminal",)),
        "check -l 0 --format markdown --issue -o paste.md --show-redacted": Run(
            needs=("terminal",)
        ),
        "check -l 0 --record bug/": Run(
            usual=False, options='--python "$WORLD/home/venv/bin/python"', words={"bug/": "new/"}
        ),
        "check -l 0 --replay bug/": Run(usual=False),
        "check --lock ~/stack/current/ascend-doctor.lock": Run(
            usual=False, options="-l 0 --only stack-lock", needs=("small",)
        ),
        "diff good.json bad.json": Run(codes=(1,), why="they differ"),
        "diagnose train.log": _FAILED,
        "diagnose output/torchrun/": _FAILED,
        "diagnose -": _FAILED,
        "diagnose ~/ascend/log --check": _FAILED,
        "diagnose logs/ --verdict": _FAILED,
        "diagnose logs/ --format html -o page.html": _FAILED,
        "--lang zh diagnose train.log": _FAILED,
        'diagnose "$attempt" --exit-status $? --verdict --history "$JOB/history" --no-redact'
        ' --nodes "$nodes" --format json -o "$file"': Run(
            codes=(1,), why=_FAILED.why, words={"verdict=": "(exit 1); verdict="}
        ),
        "lint -- torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 3": Run(
            codes=(1,), why="8 ranks are no multiple of 3"
        ),
        "matrix upgrade --to megatron=0.16.1": _UPGRADE,
        "matrix upgrade --to megatron=0.16.1 --to torch-npu=2.10.0.post4"
        " --git-mirror ~/clones --wheels .": _UPGRADE,
        "env --simulated": Run(needs=("torch",)),
        "env --undo": Run(usual=False),
        "setup --megatron 0.15.3 --framework ms-swift": _SET_UP,
        "setup --megatron 0.15.3 --framework ms-swift --prefix ~/stack": _SET_UP,
        "setup --offline --from /media/stack --yes": _SET_UP,
        "setup --megatron 0.15.3 --bundle /media/stack": Run(
            codes=(1,), why=_SET_UP.why, words=_NEW
        ),
        "setup --megatron 0.15.3 --on arch=aarch64 --on python=3.10 --on cann=9.0.0"
        " --bundle /media/stack": Run(needs=("both",), words=_NEW),
    }.items()
} | {
    "bash tests/run": Run(codes=(), why="it runs this test"),
    "pip install ascend-doctor": _WHEELS,
    "pip install --no-index --find-links /media/doctor ascend-doctor": _WHEELS,
    "pip install 'ascend-doctor[rehearsal]' pytest": replace(_WHEELS, words={" pytest": ""}),
    "pip wheel --wheel-dir /media/doctor ascend-doctor": _WHEELS,
    "pytest -p ascend_doctor.testing --simulated-npus 8": Run(
        needs=("torch",), env={"PYTHONPATH": str(ROOT)}
    ),
}


def name_of(call: str) -> str:
    """The name of the command of a call, with that of its group."""
    words = shlex.split(call.replace("$?", "0"), comments=True)[1:]
    if words[:1] == ["--lang"]:
        words = words[2:]
    return " ".join(words[: 2 if words[0] in {"fleet", "matrix", "stack"} else 1])


def needs_of(line: Line, how: Run) -> tuple[str, ...]:
    """What a line takes; ``usual`` says whether that is what its command takes anyhow."""
    return (*(NEEDS.get(name_of(line.call), ()) if how.usual else ()), *how.needs)
