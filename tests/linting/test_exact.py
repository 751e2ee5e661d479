"""`lint --exact` over the real torchrun and megatron-core, and a small training of ours."""

import importlib
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from ascend_doctor.facts import Launch
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.exact import SITE, ask, split_launches
from ascend_doctor.linting.inputs import subjects
from tests.conftest import Command
from tests.linting.judged import CATALOG, judge_inputs
from tests.programs import on_cpu

ARGUMENTS = """\
import argparse

from megatron.core.transformer import TransformerConfig


def parse_args(extra_args_provider=None, ignore_unknown_args=False):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("num-layers", "hidden-size", "num-attention-heads", "micro-batch-size"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--global-batch-size", type=int, default=8)
    parser.add_argument("--tensor-model-parallel-size", type=int, default=1)
    parser.add_argument("--position-embedding-type", choices=["learned_absolute", "rope"])
    parser.add_argument("--sequence-parallel", action="store_true")
    parser.add_argument("--init-method-xavier-uniform", action="store_true")
    if extra_args_provider is not None:
        parser = extra_args_provider(parser)
    args = parser.parse_args()
    args.rank, args.world_size = 0, int(__import__("os").environ["WORLD_SIZE"])
    args.rampup_batch_size, args.decrease_batch_size_if_needed = None, False
    return args


def validate_args(args, defaults):
    total_size = args.tensor_model_parallel_size
    assert args.world_size % total_size == 0, f"{args.world_size} ranks, {total_size} parts"
    args.data_parallel_size = args.world_size // total_size
    if args.tensor_model_parallel_size == 1:
        args.sequence_parallel = False
    return args


def core_transformer_config_from_args(args):
    keywords = {"num_layers": args.num_layers, "hidden_size": args.hidden_size}
    keywords["num_attention_heads"] = args.num_attention_heads
    keywords["tensor_model_parallel_size"] = args.tensor_model_parallel_size
    if args.init_method_xavier_uniform:
        keywords["scaled_init_method"] = print
    return TransformerConfig(**keywords)
"""
INITIALIZE = """\
def _initialize_distributed(get_embedding_ranks, get_position_embedding_ranks):
    from megatron.core import parallel_state
    from megatron.training import global_vars

    size = global_vars.args.tensor_model_parallel_size
    parallel_state.initialize_model_parallel(size, create_gloo_process_groups=False)
"""
FILES = {
    "arguments": ARGUMENTS,
    "initialize": INITIALIZE,
    "training": "def get_optimizer_param_scheduler(optimizer):\n    pass\n",
    "global_vars": "def set_args(value):\n    global args\n    args = value\n",
}
SCRIPT = """\
HEADS=32
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \\
    --num-layers 4 \\
    --hidden-size 1024 \\
    --num-attention-heads $HEADS \\
    --micro-batch-size 1 \\
    --global-batch-size 16 \\
    --position-embedding-type rope \\
    --tensor-model-parallel-size 4 \\
    --sequence-parallel
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stack")
    training = folder / "megatron" / "training"
    training.mkdir(parents=True)
    for name, content in FILES.items():
        (training / f"{name}.py").write_text(content)
    return folder


def judge(stack: Path, python: Path, folder: Path, scripts: list[str]) -> list[list[Finding]]:
    read = [subjects("train.sh", script.encode(), CATALOG) for script in scripts]
    flat = [each for inputs in read for each in inputs]
    env = on_cpu(PYTHONPATH=str(stack))
    asked = iter(ask(flat, split_launches(flat), str(python), env, folder, 300))
    answered = [[next(asked) for _ in inputs] for inputs in read]
    return [*map(judge_inputs, answered)]


def spots(reported: list[Finding]) -> list[tuple[int, str]]:
    """Lines and checks of what is wrong."""
    return [
        (each.location.line, each.check)
        for each in reported
        if each.level in {Level.ERROR, Level.WARNING} and each.location is not None
    ]


CHANGES = [
    ("--nnodes 1", "--nnodes two", 2),
    ("--nproc_per_node 8", "--nproc_per_node eight", 2),
    ("--nnodes 1", "--nnodes 4:2", 2),
    ("--nnodes 1", "--nnodes 1 --max_restarts 1.5", 2),
    ("type rope", "type rotary", 8),
    ("--micro-batch-size 1", "--micro-batch-size 1 2", 6),
    ("--sequence-parallel", "--sequence-parallel true", 10),
    ("HEADS=32", "HEADS=30", 1),
    ("size 4", "size 3", 9),
    ("batch-size 16", "batch-size 13", 7),
    ("--sequence-parallel", "--init-method-xavier-uniform", 10),
    ("type rope", "type rope --swiglu", 8),
    ("size 4", "size 1", 10),
]


def test_refusals_are_found_at_their_lines(
    stack: Path, examined_python: Path, tmp_path: Path
) -> None:
    scripts = [SCRIPT, *(SCRIPT.replace(before, after) for before, after, _ in CHANGES)]
    two = SCRIPT.replace("HEADS=32", "HEADS=30").replace("type rope", "type rotary")
    healthy, *others, several = judge(stack, examined_python, tmp_path, [*scripts, two])
    assert spots(healthy) == []
    assert [each.check for each in healthy if each.level is Level.UNKNOWN] == []
    for (_, after, line), reported in zip(CHANGES, others, strict=True):
        assert line in {spot[0] for spot in spots(reported)}, after
        asked = [check for _, check in spots(reported) if check.startswith("run-framework")]
        assert len(asked) <= 1, (after, spots(reported))
    assert {line for line, _ in spots(several)} >= {1, 8}
    assert (8, "run-framework-refuses") in spots(others[-2])
    assert spots(others[-1]) == [(10, "run-framework-changes")]
    assert not [*stack.rglob("*.pyc")]


def test_a_launch_is_patched_anew_where_its_patches_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SITE)
    begin = importlib.import_module("ascend_start.frameworks").Megatron()
    applied: list[list[str]] = []

    class Patches:
        patches_info: ClassVar[dict[str, SimpleNamespace]] = {}

        @classmethod
        def apply_patches(cls) -> None:
            applied.append([*cls.patches_info])

        @classmethod
        def remove_patches(cls) -> None:
            cls.patches_info.clear()

    def register(words: list[str]) -> None:
        for word in words:
            patch = SimpleNamespace(patch_func=print, wrappers=[], final_patch_func=print)
            Patches.patches_info[word] = SimpleNamespace(**vars(patch), orig_func=repr)
        Patches.apply_patches()

    features = SimpleNamespace(
        remove_patches=lambda *_: Patches.remove_patches(),
        apply_features_pre_patches=lambda _: None,
        apply_features_patches=register,
    )
    utils = SimpleNamespace(
        MindSpeedFeaturesManager=features, get_mindspeed_args=lambda: sys.argv[1:]
    )
    monkeypatch.setitem(sys.modules, "mindspeed.args_utils", utils)
    patching = SimpleNamespace(MindSpeedPatchesManager=Patches)
    monkeypatch.setitem(sys.modules, "mindspeed.patch_utils", patching)
    monkeypatch.setattr(sys, "argv", [])
    word = importlib.import_module("ascend_start.options").CommandWord
    for text in ("--first", "--first", "--other"):
        begin.adapt("train.py", [word(text, 0)])
    assert applied == [["--first"], ["--other"]]


class Program:
    folders = ("/linting/test_exact.py",)
    overrides = True

    def start(self, words: list[Any], _world: int | None) -> dict[str, Any]:
        self.values = dict(word.text.split("=") for word in words)
        return {}

    def go_on(self) -> None:
        beta = self.values["beta"]
        optimize(betas=beta)
        raise ValueError


def optimize(betas: str) -> None:
    if betas.startswith("-"):
        raise ValueError


def test_a_later_refusal_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SITE)
    refusals = importlib.import_module("ascend_start.refusals")
    for value, blamed in (("-1", ["beta"]), ("1", [])):
        start = refusals.Start(Program(), [refusals.CommandWord(f"beta={value}", 0)], None, {})
        listed = refusals.find_refusals(start, time.monotonic() + 60)["refusals"]
        assert [each["options"][0]["dest"] for each in listed] == blamed


def test_what_a_parser_takes_is_known() -> None:
    (subject,) = subjects("a.sh", b"swift sft --model m --tpu_num_cores 2\n", CATALOG)
    assert spots(judge_inputs([subject])) == [(1, "run-swift-options")]
    launch = msgspec.structs.replace(subject.launch or Launch(), refusals=())
    assert spots(judge_inputs([msgspec.structs.replace(subject, launch=launch)])) == []


def test_what_cannot_be_asked_is_not_judged(examined_python: Path, tmp_path: Path) -> None:
    reported = judge(tmp_path / "none", examined_python, tmp_path, [SCRIPT])[0]
    unjudged = [each for each in reported if each.check == "run-framework-answers"]
    assert [each.level for each in unjudged] == [Level.UNKNOWN]


SWIFT_FILES = {
    "pipelines/train/sft.py": """\
import argparse


class SwiftSft:
    def _parse_args(self, argv):
        from swift.arguments.base_args.base_args import check
        parser = argparse.ArgumentParser()
        parser.add_argument("--model")
        parser.add_argument("--lora_rank", type=int)
        parser.add_argument("--packing", choices=["true", "false"])
        args, rest = parser.parse_known_args(argv)
        if rest:
            raise ValueError(f"remaining_argv: {rest}")
        check(args)
""",
    "arguments/base_args/base_args.py": """\
import swift.model.model_meta as meta

safe_snapshot_download = None


def check(args):
    info = meta._get_model_info(safe_snapshot_download(args.model), "qwen3")
    if args.packing == "true" and not info.is_multimodal:
        raise ValueError("packing")
""",
    "model/model_meta.py": """\
from types import SimpleNamespace

ModelInfo = lambda *_, **named: SimpleNamespace(**named)
_get_model_info = None
MODEL_MAPPING = {"qwen3": SimpleNamespace(is_multimodal=False)}
""",
}


@pytest.mark.parametrize(
    ("options", "lines"),
    [("", []), (" --lora_rank 8.5", [1]), (" --packing true", [1]), (" --lora_rnk 8", [1])],
)
def test_swift_is_asked(
    options: str, lines: list[int], examined_python: Path, tmp_path: Path
) -> None:
    for name, content in SWIFT_FILES.items():
        path = tmp_path / "stack" / "swift" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    script = f"NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B{options}\n"
    reported = judge(tmp_path / "stack", examined_python, tmp_path, [script])[0]
    asked = [each for each in reported if each.check.startswith("run-framework")]
    assert [each.title for each in asked if each.level is Level.UNKNOWN] == []
    assert [line for line, _ in spots(reported)][:1] == lines


def test_a_hostile_module_in_the_current_folder_is_not_imported(
    stack: Path, examined_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("json", "torch", "pretrain_gpt"):
        (here / f"{name}.py").write_text("open('/tmp/taken', 'w')\nraise SystemExit(9)\n")
    monkeypatch.chdir(here)
    folder = tmp_path / "private"
    folder.mkdir()
    script = f"export LD_PRELOAD={here}/x.so PYTHONPATH={here}\n{SCRIPT}"
    assert spots(judge(stack, examined_python, folder, [script])[0]) == []
    assert not Path("/tmp/taken").exists()


def test_plain_lint_names_what_would_judge_more(installed: Command, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT)
    output = installed("lint", "train.sh", cwd=tmp_path).stderr
    assert output.count("lint --exact") == 1
    (tmp_path / "other.sh").write_text("A=1\necho $A\n")
    assert "--exact" not in installed("lint", "other.sh", cwd=tmp_path).stderr
    refused = installed("lint", "--python", "/usr/bin/python3", "train.sh", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--exact" in refused.stderr
