"""What MindSpeed did to megatron.core in this process, and who imported Megatron first."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import Any

ADAPTOR = "mindspeed.megatron_adaptor"
# The innermost ones name whoever imported it.
FRAMES = 6
# Where megatron.core decides at import time what a later patch cannot repair.
MODULES = (
    "megatron.core.models.gpt.gpt_layer_specs",
    "megatron.core.extensions.transformer_engine",
    "megatron.core.optimizer",
    "megatron.core.jit",
)


class Order:
    """Sees who imports megatron.core first, and whether MindSpeed had begun by then."""

    def __init__(self) -> None:
        self.began = False
        self.first: dict[str, Any] = {}
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, *_: Any) -> None:
        if name == ADAPTOR:
            self.began = True
        if name == "megatron.core" and not self.first:
            frames = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_stack()
                if "importlib" not in frame.filename and frame.filename != __file__
            ]
            self.first = {"after_adaptor": self.began, "stack": frames[-FRAMES:]}


def import_patched(**options: Any) -> Any:
    """The adaptor, in the order of a training; the options are MindSpeed's arguments before it."""
    importlib.import_module("torch")
    importlib.import_module("torch_npu")
    if options:
        args = importlib.import_module("mindspeed.args_utils")
        args._MINDSPEED_ARGS = args.get_mindspeed_args(get_defaults=True)  # noqa: SLF001
        vars(args._MINDSPEED_ARGS).update(options)  # noqa: SLF001 - what frameworks set
    return importlib.import_module(ADAPTOR)


def decisions() -> dict[str, Any]:
    """What megatron.core decided when it was imported, by how the decisions are called."""
    specs, te, optimizer, jit = (import_or_none(module) for module in MODULES)
    return {
        "gpt_layer_specs.HAVE_TE": getattr(specs, "HAVE_TE", None),
        "extensions.transformer_engine.HAVE_TE": getattr(te, "HAVE_TE", None),
        "optimizer.Adam": name_of(getattr(optimizer, "Adam", None)),
        "optimizer.USING_PYTORCH_OPTIMIZER": getattr(optimizer, "USING_PYTORCH_OPTIMIZER", None),
        "jit.jit_fuser": name_of(getattr(jit, "jit_fuser", None)),
    }


def import_or_none(name: str) -> Any:
    """A module, None where it is not there."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def read_bound() -> dict[str, str]:
    """What is bound to every name that MindSpeed patches."""
    manager = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager
    return {name: name_of(resolve(name)) for name in manager.patches_info}


def resolve(path: str) -> Any:
    """The object at a dotted path: an attribute of the longest part that is a module."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:end]))
        if module is not None:
            for part in parts[end:]:
                module = getattr(module, part, None)
            return module
    return None


def name_of(thing: Any) -> str:
    """Where a function or class was written; a wrapper "around" what it wraps."""
    if isinstance(thing, (staticmethod, classmethod)):
        thing = thing.__func__
    code = getattr(thing, "__code__", None)
    if code is None:
        where = getattr(thing, "__module__", None) or type(thing).__module__
        return f"{where}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"
    # functools.wraps gives a wrapper the names of what it wraps; its code has its own.
    inner = getattr(thing, "__wrapped__", None)
    own = code.co_name if inner else thing.__qualname__
    text = f"{thing.__globals__.get('__name__')}.{own}"
    return f"{text} around {name_of(inner)}" if inner else text


def name_changes(before: dict[str, str], after: dict[str, str]) -> dict[str, list[str]]:
    """Names whose binding differs, with both."""
    names = [name for name in after if before.get(name) != after[name]]
    return {name: [before.get(name, ""), after[name]] for name in names}
