"""How frameworks begin: their parsers, validation, configuration and parallel groups.

Sources: pytorch/pytorch@v2.13.0:torch/distributed/run.py, NVIDIA/Megatron-LM@core_v0.12.1 and
core_v0.15.3 (megatron/training: initialize.py, training.py), Ascend/MindSpeed@028de58c
(mindspeed/megatron_adaptor.py), Ascend/MindSpeed-LLM@c77308a1
(mindspeed_llm/tasks/megatron_adaptor_v2.py).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from .options import CommandWord, ParserRefusal, options_refused, without_unknown

DEVICES = 8
_MAX_REMOVED = 20
_PLAIN = (bool, int, float)
_PARALLEL = ("tensor", "pipeline", "context")
_LLM = "mindspeed_llm.tasks.megatron_adaptor_v2"
# As pretrain_gpt.py has it.
_DEFAULTS = {"tokenizer_type": "GPT2BPETokenizer"}


class Torchrun:
    """torch.distributed.run: its parser and what it makes of the arguments."""

    folders = ("/torch/distributed/",)
    module = "torch.distributed.run"

    def parse(self, words: list[CommandWord]) -> Any:
        run = importlib.import_module("torch.distributed.run")
        return run.get_args_parser().parse_args([word.text for word in words])

    def start(self, words: list[CommandWord], _world: int | None) -> dict[str, Any]:
        run = importlib.import_module("torch.distributed.run")
        args = self.parse(words)
        fewest, _ = run.parse_min_max_nnodes(args.nnodes)
        config, _, _ = run.config_from_args(args)
        return {"world": fewest * config.nproc_per_node}


class Megatron:
    """Megatron-LM's training, with the adaptor of MindSpeed or MindSpeed-LLM if present."""

    folders = ("/megatron/", "/mindspeed/", "/mindspeed_llm/")
    provider: Any = None

    def prepare(self, entry: str, words: list[CommandWord]) -> None:
        """Import it, as patched for this launch."""
        _type(entry, words)
        os.environ.update({"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"})
        with parser_that_passes():
            if importlib.util.find_spec("mindspeed_llm") is not None:
                importlib.import_module(_LLM)
            elif importlib.util.find_spec("mindspeed") is not None:
                importlib.import_module("mindspeed.megatron_adaptor")
            else:
                _stand_in_for_cuda()
        for name in ("arguments", "initialize", "training", "global_vars"):
            importlib.import_module(f"megatron.training.{name}")
        importlib.import_module("torch.testing._internal.distributed.fake_pg")

    def adapt(self, entry: str, words: list[CommandWord]) -> None:
        """Patch it for this launch, unless its patches are those of the launch before."""
        _type(entry, words)
        patches = getattr(sys.modules.get("mindspeed.patch_utils"), "MindSpeedPatchesManager", None)
        if patches is None:
            return
        before, ways = patches.patches_info, (patches.apply_patches, patches.remove_patches)
        patches.patches_info, patches.apply_patches, patches.remove_patches = {}, dict, dict
        with parser_that_passes():
            self._patch()
            same = _are_applied(patches.patches_info, before)
            patches.patches_info = before
            patches.apply_patches, patches.remove_patches = ways
            if not same:
                self._patch()

    def _patch(self) -> None:
        if _LLM in sys.modules:
            adaptor = sys.modules[_LLM].FeatureAdaptor
            adaptor._args = None
            adaptor.execute()
        elif "mindspeed.args_utils" in sys.modules:
            utils = sys.modules["mindspeed.args_utils"]
            utils._MINDSPEED_ARGS = None
            manager = utils.MindSpeedFeaturesManager
            manager.remove_patches()
            args = utils.get_mindspeed_args()
            manager.apply_features_pre_patches(args)
            manager.apply_features_patches(args)

    def parse(self, words: list[CommandWord]) -> Any:
        _type(sys.argv[0], words)
        return sys.modules["megatron.training.arguments"].parse_args(self.provider)

    def validate(self, words: list[CommandWord], ranks: int) -> tuple[dict[str, Any], Any]:
        """What was parsed, and what the validation made of it."""
        arguments = sys.modules["megatron.training.arguments"]
        os.environ.update({"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(min(ranks, DEVICES))})
        args = self.parse(words)
        before = dict(vars(args))
        return before, arguments.validate_args(args, dict(_DEFAULTS)) or args

    def start(self, words: list[CommandWord], world: int | None) -> dict[str, Any]:
        arguments = sys.modules["megatron.training.arguments"]
        ranks = world or fewest_ranks(words)
        before, args = self.validate(words, ranks)
        after = dict(vars(args))
        sys.modules["megatron.training.global_vars"].set_args(args)
        calculator = importlib.import_module("megatron.core.num_microbatches_calculator")
        calculator.init_num_microbatches_calculator(
            args.rank,
            args.rampup_batch_size,
            args.global_batch_size,
            args.micro_batch_size,
            args.data_parallel_size,
            args.decrease_batch_size_if_needed,
        )
        _make_groups(ranks)
        config = arguments.core_transformer_config_from_args(args)
        block = importlib.import_module("megatron.core.transformer.transformer_block")
        block.get_num_layers_to_build(config)
        training = sys.modules["megatron.training.training"]
        for name in ("DistributedDataParallelConfig", "OptimizerConfig"):
            if made := getattr(training, name, None):
                fields = made.__dataclass_fields__
                made(**{key: after[key] for key in fields if key in after})
        training.get_optimizer_param_scheduler(types.SimpleNamespace(param_groups=[]))
        return {
            "changed": {
                name: str(after[name])
                for name, value in before.items()
                if isinstance(value, _PLAIN)
                and isinstance(after.get(name), _PLAIN)
                and value != after[name]
            }
        }


def _are_applied(patches: dict[str, Any], applied: dict[str, Any]) -> bool:
    """Whether patches put the same in place; some register what another one patched."""
    originals = {id(each.final_patch_func): each.orig_func for each in applied.values()}

    def identify(each: Any) -> Any:
        each = getattr(each, "__func__", each)
        cells = [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]
        return getattr(each, "__code__", each), cells

    def parts(patch: Any, seen: dict[int, Any]) -> list[Any]:
        return [identify(seen.get(id(e), e)) for e in (patch.patch_func, *patch.wrappers)]

    return patches.keys() == applied.keys() and all(
        parts(applied[name], {}) in (parts(patch, {}), parts(patch, originals))
        for name, patch in patches.items()
    )


def _type(entry: str, words: list[CommandWord]) -> None:
    sys.argv = [entry, *without_unknown(words)]


def fake_ranks(ranks: int) -> None:
    """Be the first of ranks that are not there."""
    dist = importlib.import_module("torch.distributed")
    fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")
    low = dist.distributed_c10d
    make = low._new_process_group_helper

    def helper(size: int, rank: int, members: Any, _backend: Any, *rest: Any, **named: Any) -> Any:
        named = {name: value for name, value in named.items() if name != "backend_options"}
        return make(size, rank, members, low.Backend("fake"), *rest, **named)

    low._new_process_group_helper = helper
    dist.init_process_group("fake", rank=0, world_size=ranks, store=fake.FakeStore())


def be_first_of(ranks: int) -> None:
    """Be the first of ranks that torchrun would have started."""
    local = min(ranks, DEVICES)
    places = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": local, "RANK": 0, "LOCAL_RANK": 0}
    for name, value in places.items():
        os.environ[name] = str(value)
        if ranks == 1:
            del os.environ[name]
    torch = sys.modules["torch"]
    # More devices than local ranks would share the model.
    for devices in {torch.cuda, getattr(torch, "npu", torch.cuda)}:
        devices.device_count = lambda: local
    fake_ranks(ranks)


def _make_groups(ranks: int) -> None:
    fake_ranks(ranks)
    initialize = sys.modules["megatron.training.initialize"]._initialize_distributed
    while hasattr(initialize, "__wrapped__"):
        initialize = initialize.__wrapped__
    initialize(*[None] * initialize.__code__.co_argcount)


def _stand_in_for_cuda() -> None:
    """Pretend CUDA devices to plain Megatron-LM, without an accelerator."""
    cuda = importlib.import_module("torch").cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: DEVICES
    cuda.current_device = lambda: 0
    cuda.set_device = lambda *_: None
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)


def fewest_ranks(words: list[CommandWord]) -> int:
    """The fewest ranks for a launch whose number of ranks is unknown."""
    ranks = 1
    texts = [word.text for word in words]
    for text, following in zip(texts, [*texts[1:], ""]):
        name, equals, value = text.replace("_", "-").partition("=")
        if any(name == f"--{part}-model-parallel-size" for part in _PARALLEL) or (
            name == "--context-parallel-size"
        ):
            value = value if equals else following
            ranks *= int(value) if value.isdigit() and int(value) else 1
    return ranks


@contextlib.contextmanager
def parser_that_passes() -> Iterator[None]:
    """A parser leaves out what it would refuse: a later start reports that."""
    parse = argparse.ArgumentParser.parse_known_args

    def tolerant(parser: Any, args: Any = None, namespace: Any = None) -> Any:
        texts = list(sys.argv[1:] if args is None else args)
        for _ in range(_MAX_REMOVED):
            words = [CommandWord(text, number) for number, text in enumerate(texts)]
            try:
                return parse(parser, texts, namespace)
            except ParserRefusal as refusal:
                refused = options_refused(refusal, words)
                gone = {number for option in refused for number in option.places}
                texts = [word.text for word in words if word.at not in gone]
        return parse(parser, [], namespace)

    argparse.ArgumentParser.parse_known_args = tolerant
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_known_args = parse
