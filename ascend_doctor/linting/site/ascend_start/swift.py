"""ms-swift: its argument classes, with ranks that do not exist and a model that is only named.

Source: modelscope/ms-swift@v4.2.3:swift/pipelines/base.py, swift/arguments.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .frameworks import be_first_of
from .options import CommandWord
from .stand_ins import end, make_model, make_rows, make_tokenizer, reach_trainer, replace

_PIPELINES = {"sft": "sft.{}Sft", "pt": "pretrain.{}Pretrain", "rlhf": "rlhf.{}RLHF"}
_FOLDERS = {"swift": "swift.pipelines.train", "megatron": "swift.megatron.pipelines.train"}
# A model's own length is in its configuration, which is not here.
_LENGTH = 1 << 20


class Swift:
    """A pipeline of ms-swift."""

    folders = ("/swift/", "/transformers/", "/megatron/", "/mcore_bridge/", "/peft/", "/optim/")
    _pipeline: Any = None

    def prepare(self, entry: str, words: list[CommandWord]) -> None:
        os.environ.update({"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"})
        sys.argv = [entry]
        self.adapt(entry, words)
        importlib.import_module("torch.testing._internal.distributed.fake_pg")

    def adapt(self, entry: str, _words: list[CommandWord]) -> None:
        program, action = entry.split()
        module, name = _PIPELINES[action].format(program.title()).split(".")
        folder = importlib.import_module(f"{_FOLDERS[program]}.{module}")
        self._pipeline = getattr(folder, name)

    def parse(self, words: list[CommandWord]) -> Any:
        texts = [word.text for word in words]
        return self._pipeline._parse_args(object.__new__(self._pipeline), texts)

    def start(self, words: list[CommandWord], _world: int | None) -> dict[str, Any]:
        # Swift starts a single rank itself, and torchrun more (swift/cli/main.py).
        sizes = [os.environ.get(name, "1") for name in ("NNODES", "NPROC_PER_NODE")]
        be_first_of(int(sizes[0]) * int(sizes[1]))
        _name_models(sys.modules["torch"].bfloat16)
        self._args = self.parse(words)
        return {}

    def go_on(self) -> None:
        args = self._args
        model, tokenizer, rows = make_model(), make_tokenizer(), make_rows()
        for part in (model, tokenizer):
            part.model_info, part.model_meta = args.model_info, args.model_meta
        args.model_info.config = model.config
        type(args).save_args = lambda *_: None
        self._pipeline._prepare_dataset = lambda _: args.load_dataset()
        sys.modules["swift.dataset.loader"].DatasetLoader.load = lambda *_, **__: rows
        replace(
            "swift.",
            get_model_processor=lambda *_, **__: (model, tokenizer),
            get_target_modules=lambda *_: ["q_proj"],
            get_modules_to_save=lambda *_: None,
            get_mcore_model=end,
            apply_mindspeed_patches=None,
        )
        reach_trainer(lambda: self._pipeline(args).main())


def _name_models(dtype: Any) -> None:
    """Load no model, adapter or plugin: a model is what its name says."""
    meta = sys.modules["swift.model.model_meta"]

    def describe(folder: str, model_type: str | None, **_: Any) -> Any:
        known = meta.MODEL_MAPPING.get(model_type)
        if model_type is not None and known is None:
            raise ValueError(f"model_type: '{model_type}' not in {list(meta.MODEL_MAPPING)}")
        info = meta.ModelInfo(model_type, folder, dtype, _LENGTH, quant_method=None, quant_bits=0)
        info.is_multimodal = bool(known and known.is_multimodal)
        return info

    replace(
        "swift.",
        safe_snapshot_download=lambda name, *_, **__: name,
        _get_model_info=describe,
        import_external_file=lambda _: None,
    )
