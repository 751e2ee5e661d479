"""Answers a request: REQUEST ANSWER are the files of both.

One process imports a framework; each launch is a fork of it, and each try of a launch another one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import importlib.util
import json
import os
import sys
import time
from typing import Any

from .composed import Composed, Verl
from .configured import Accelerate, LlamaFactory
from .confined import confine, end_with_parent, in_fork
from .frameworks import Megatron, Torchrun
from .mindspeed import FsdpTrainer, MindSpeedMm, MindSpeedRl
from .options import UNTOLD, CommandWord, divide, fill_unknown, last_key, refuse
from .refusals import Start, find_refusals
from .swift import Swift
from .tries import parser_of

FRAMEWORKS = {
    "megatron": Megatron,
    "verl": Verl,
    "swift": Swift,
    "llamafactory": LlamaFactory,
    "mindspeed_rl": MindSpeedRl,
    "mindspeed_mm": MindSpeedMm,
    "fsdp": FsdpTrainer,
    "hydra": Composed,
}
STARTERS = {"torchrun": Torchrun, "accelerate": Accelerate}
_SECONDS_OF_LAUNCH = 120.0
_GRACE = 30.0


class Frameworks:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, str]] = {}

    def take(self, launch: dict[str, Any]) -> tuple[Any, str, bool]:
        """The framework or why it cannot be imported, and whether it adapts to the launch."""
        if launch["launcher"]:
            with contextlib.suppress(Exception):  # a start says why
                importlib.import_module(STARTERS[launch["starter"]].module)
        name = launch["framework"]
        absent = name == "verl" and importlib.util.find_spec("verl") is None
        if name == "hydra" or (absent and launch["tree"]):
            name, launch["entry"] = "hydra", launch["tree"]
        if name not in FRAMEWORKS or launch["words"] is None:
            return None, "", False
        adapts = name in self._known or hasattr(FRAMEWORKS[name], "adapts")
        if name not in self._known:
            self._known[name] = FRAMEWORKS[name](), ""
            try:
                self._known[name][0].prepare(launch["entry"], launch["words"])
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever its import ends with
                self._known[name] = None, _describe(error)
        return *self._known[name], adapts


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _examine(launch: dict[str, Any], framework: Any, ends: float, *, adapt: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    world = None
    os.environ.update(launch["env"])
    if launch["launcher"]:
        starter = STARTERS[launch["starter"]]()
        words, unknown = fill_unknown(launch["launcher"], parser_of(starter), any_text=False)
        part = find_refusals(Start(starter, words, None, {}), ends)
        doubted = {option["dest"] for each in part["refusals"] for option in each["options"]}
        if not {"nnodes", "nproc_per_node"} & {*unknown, *doubted}:
            world = part.get("world")
        answer["launcher"] = {**part, "unknown": unknown}
    if framework is None:
        return answer
    try:
        if adapt:
            framework.adapt(launch["entry"], launch["words"])
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever its patches end with
        return {**answer, "failed": _describe(error)}
    typed, settings = divide(launch["words"], overrides=hasattr(framework, "overrides"))
    if isinstance(framework, Composed):
        settings = [word._replace(text=word.text.replace(UNTOLD, "0")) for word in settings]
    lost = [word for word in settings if UNTOLD in word.text]
    words, unknown = fill_unknown(typed, parser_of(framework))
    words += [word for word in settings if word not in lost]
    unknown += [last_key(word.text) for word in lost]
    part = find_refusals(Start(framework, words, world, {}), ends)
    return {**answer, "program": {**part, "unknown": unknown}}


def main() -> None:
    request_file, answer_file = map(os.path.abspath, sys.argv[1:])
    os.chdir(os.path.dirname(request_file))
    with open(request_file, encoding="utf-8") as file:
        request = json.load(file)
    target = os.open(answer_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    end_with_parent()
    confine(os.path.realpath(os.path.dirname(request_file)))
    argparse.ArgumentParser.error = refuse
    ends = time.monotonic() + request["seconds"]
    frameworks = Frameworks()
    for launch in request["launches"]:
        for part in ("launcher", "words"):
            launch[part] = launch[part] and [CommandWord(*word) for word in launch[part]]
        framework, failed, adapts = frameworks.take(launch)
        ready = time.monotonic()
        limit = min(ends, ready + _SECONDS_OF_LAUNCH)
        examine = functools.partial(_examine, launch, framework, limit, adapt=adapts)
        answer = in_fork(examine, max(limit - ready, 1.0) + _GRACE) or {"lost": True}
        line = json.dumps({"failed": failed, **answer}).encode() + b"\n"
        while line:
            line = line[os.write(target, line) :]
    os._exit(0)
