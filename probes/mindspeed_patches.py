"""Imports MindSpeed before Megatron as a training does, and sees what it did, case by case.

MindSpeed replaces functions of megatron.core when ``mindspeed.megatron_adaptor`` is imported, and
again in its ``repatch``. Each case is a process of its own, because a second import is none:

``import``: torch, torch_npu, MindSpeed, Megatron; what Megatron decided while it was imported.
``arguments``: the arguments of a plan are there before the import.
``repatch``: the same arguments, set after the import, as frameworks do.
``again``: a repatch with arguments that did not change.
``argv``: what MindSpeed takes from the command line of whoever imports it.
``twinkle``: what its arguments of a dense model leave out.

Recorded: ``cases``, and ``line``, the line of Megatron that this MindSpeed is written for, told by
what its source has (its version says 0.12.1 on branches for 0.17, too); that nobody comes to
megatron.core (``blocks``) where MindSpeed cannot be imported.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import sys
from typing import Any

import _cases
import _probe
from _packages import find_folder, has_module
from _patches import (
    ADAPTOR,
    Order,
    decisions,
    import_or_none,
    import_patched,
    name_changes,
    read_bound,
)
from _probe import Probe
from megatron_tree import read

MANIFEST = {
    "order": 40,
    "level": 1,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["inspect-env"],
    "does": (
        "imports MindSpeed as a training does, six times in processes of their own: alone, with "
        "arguments before it, with arguments and repatch after it, with a repatch that changes "
        "nothing, with a command line, with twinkle's arguments"
    ),
    "on_cpu": "skipped: MindSpeed is for NPUs",
}

CASE_SECONDS = 240.0
# Fields that the command line of a probe or of a case would become.
OWN = ("device", "records", "deadline", "run_cases")
# Sizes and features whose patches depend on arguments. Registration reads some of the others
# without a default as soon as a feature is on.
PLAN: dict[str, Any] = {
    "tensor_model_parallel_size": 2,
    "pipeline_model_parallel_size": 1,
    "context_parallel_size": 2,
    "expert_model_parallel_size": 2,
    "expert_tensor_parallel_size": 1,
    "sequence_parallel": True,
    "num_experts": 4,
    "moe_grouped_gemm": True,
    "moe_token_dispatcher_type": "alltoall",
    "use_flash_attn": True,
    "bf16": True,
    "fp16": False,
}
DENSE = PLAN | {"context_parallel_size": 1, "expert_model_parallel_size": 1}
DENSE |= {"num_experts": None, "moe_grouped_gemm": False}
RUNTIME = "twinkle.model.megatron._mindspeed_runtime"
# Ascend/MindSpeed@core_r0.15.3:mindspeed/args_utils.py parses the whole command line.
COMMAND_LINE = ("--tensor-model-parallel-size", "2", "--ascend-doctor-flag")


def body(probe: Probe) -> None:
    """What MindSpeed does to megatron.core when it is imported, and when it patches again."""
    if probe.device != "npu":
        probe.skip(f"MindSpeed is for NPUs; the device is {probe.device}")
    with probe.stage("find"):
        root = find_folder("mindspeed")
        if root is None or importlib.util.find_spec("megatron") is None:
            probe.skip("MindSpeed is not installed" if root is None else "there is no megatron")
        probe.measure("line", line(root))
        # 2.1.0 has neither this module nor a repatch.
        repatches = os.path.isfile(os.path.join(root, "args_utils.py"))
        probe.measure("repatches", repatches)
        probe.measure("plan", PLAN)
    outcomes = _cases.run(probe, __file__, ["import"], limit=CASE_SECONDS)
    if outcomes["import"].get("adaptor") == "raises":
        reason, _, _ = outcomes["import"]["error"].partition("\n")
        probe.measure("blocks", f"MindSpeed cannot be imported: {reason}")
    if "error" not in outcomes["import"]:
        others = [case for case in CASES if case != "import"] if repatches else ["argv"]
        if not has_module(RUNTIME):
            others = [case for case in others if case != "twinkle"]
        outcomes |= _cases.run(probe, __file__, others, limit=CASE_SECONDS, apart=True)
    before, after = (outcomes.get(case, {}).pop("bound", None) for case in ("arguments", "repatch"))
    if before and after:
        # What is patched only as long as an argument has its default stays known by name.
        late = {name: after.get(name, "not patched") for name in before}
        probe.measure("differ", name_changes(before, late))
    probe.measure("cases", outcomes)


def line(root: str) -> str:
    """The line of Megatron that MindSpeed's source is written for, "0.17 or newer" from then on."""

    def has(*parts: str) -> bool:
        return os.path.exists(os.path.join(root, *parts))

    if has("features_manager", "npu_enhancement"):
        return "0.17 or newer"
    if has("core", "ssm", "gated_delta_net.py"):
        return "0.16"
    groups = any("ModelCommProcessGroups" in text for text in read(root))
    if not groups:
        return "0.12"
    with open(os.path.join(root, "patch_utils.py"), encoding="utf-8") as file:
        return "0.15" if "isclass" in file.read() else "0.14"


def arguments() -> Any:
    args = import_or_none("mindspeed.args_utils")
    return args.get_full_args() if args else sys.modules[ADAPTOR].get_mindspeed_args()


def plan(namespace: argparse.Namespace) -> dict[str, str]:
    """The fields of the plan that are absent or have another value or type, as text."""
    values = vars(namespace)
    absent = object()
    return {
        name: "absent" if values.get(name, absent) is absent else repr(values[name])
        for name, value in PLAN.items()
        if repr(values.get(name, absent)) != repr(value)
    }


def import_(_: Any, __: str) -> dict[str, Any]:
    order = Order()
    try:
        import_patched()
    except BaseException as error:  # noqa: BLE001 - SystemExit of MindSpeed is a result, too
        return {"error": _probe.innermost(error), "adaptor": "raises"}
    import megatron.core

    manager = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager
    every = list(manager.patches_info.values())
    before = vars(arguments())
    return {
        "megatron": str(getattr(megatron.core, "__version__", "")),
        "training": "megatron.training" in sys.modules,
        "order": order.first,
        "decisions": decisions(),
        "patches": len(every),
        "applied": sum(bool(patch.is_applied) for patch in every),
        "fields": len(before),
        "planned": [name for name in PLAN if name in before],
        "leaked": [name for name in OWN if name in before],
        "optimization_level": before.get("optimization_level"),
    }


def arguments_first(_: Any, __: str) -> dict[str, Any]:
    import_patched(**PLAN)
    return {"bound": read_bound(), "off": plan(arguments())}


def repatch(_: Any, __: str) -> dict[str, Any]:
    adaptor = import_patched()
    before = read_bound()
    adaptor.repatch(dict(PLAN))
    after = read_bound()
    return {
        "changed": sorted(name_changes(before, after)),
        "bound": after,
        "off": plan(arguments()),
    }


def again(_: Any, __: str) -> dict[str, Any]:
    adaptor = import_patched()
    before = read_bound()
    adaptor.repatch(dict(vars(arguments())))
    return {"changed": name_changes(before, read_bound())}


def argv(_: Any, __: str) -> dict[str, Any]:
    sys.argv[1:] = COMMAND_LINE
    import_patched()
    parsed = vars(arguments())
    names = [re.sub("^--", "", option).replace("-", "_") for option in COMMAND_LINE]
    return {"taken": {name: repr(parsed[name]) for name in names if name in parsed}}


def twinkle(_: Any, __: str) -> dict[str, Any]:
    adaptor = import_patched()
    build = importlib.import_module(RUNTIME).build_mindspeed_runtime_args
    built = vars(build(argparse.Namespace(**DENSE)))
    adaptor.repatch(built)
    before = read_bound()
    adaptor.repatch({**built, "optimization_level": 2})
    return {"changed": name_changes(before, read_bound())}


CASES: dict[str, _cases.Case] = {
    "import": import_,
    "arguments": arguments_first,
    "repatch": repatch,
    "again": again,
    "argv": argv,
    "twinkle": twinkle,
}


if __name__ == "__main__":
    _cases.answer(CASES, bare=True)
    _probe.main(body, name="mindspeed-patches")
