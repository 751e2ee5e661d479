"""A Python entry file: the order of imports, and which device a rank takes."""

import re
from collections.abc import Iterator

from ascend_doctor.checks.launch.options import behaviour_refs, version
from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Script, Spot
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.matrix.versions import satisfies

_ADAPTOR = ("mindspeed.megatron_adaptor", "mindspeed_llm.megatron_adaptor")
_MEGATRON = ("megatron.core", "megatron.training", "mcore_bridge", "swift.megatron")
_SET_DEVICE = ("torch.npu.set_device", "torch_npu.npu.set_device", "torch.cuda.set_device")
_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_PATCHES = "Ascend/MindSpeed@core_r0.15.3:mindspeed/patch_utils.py"
_TRANSFER = "Ascend/MindSpeed@master:mindspeed/megatron_adaptor.py:11"
# They patch torch.cuda to mean the NPU.
_PATCHING = ("torch_npu.contrib", "mindspeed", "mindspeed_llm", "mindspeed_mm", "mindspeed_rl")
_SEVERAL_RANKS = (
    *("torch.distributed", "megatron", "mcore_bridge", "mindspeed", "mindspeed_llm"),
    *("mindspeed_mm", "swift", "verl", "twinkle", "deepspeed", "accelerate"),
)
_GROUPS = ("init_process_group", "new_group", "new_subgroups")
_GETS_GROUP = re.compile(r"get_\w+_group(_gloo)?")
_OF_OBJECTS = ("all_gather_object", "broadcast_object_list", "gather_object")
_OBJECTS = "https://github.com/Ascend/pytorch/issues/58"
_ETP = "expert_tensor_parallel_size"
_ABOVE_ONE = re.compile(r"(?:tensor|expert)_model_parallel_size=(?:[2-9]|[1-9]\d+)")
_ETP_OF_GROUPS = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/parallel_state.py:743"
_ETP_OF_CONFIG = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/model_parallel_config.py:361"
_EXTENDING = "https://docs.pytorch.org/docs/stable/notes/extending.html"
_DEVICES = "hicann/runtime@681ef761:docs/zh/env_vars"
_NONZERO = "https://github.com/Ascend/pytorch/issues/153"


def _script(case: Case) -> Script:
    if case.facts.script is None:
        raise NotApplicable("no Python file was given; `ascend-doctor lint FILE` reads one")
    return case.facts.script


def _imports(spots: tuple[Spot, ...], names: tuple[str, ...]) -> list[Spot]:
    return [spot for spot in spots if any(f"{spot.name}.".startswith(f"{name}.") for name in names)]


@check("entry-import-order", "The entry file imports MindSpeed before Megatron", scope="entry file")
def entry_import_order(case: Case) -> Iterator[Finding]:
    """mindspeed.megatron_adaptor comes before anything that imports megatron.core.

    MindSpeed patches what is there and what comes later, but not what megatron.core decided when it
    was imported: whether Transformer Engine is there, which optimizer it takes, what its compiler
    wraps. A late import looks complete and is not.
    """
    script = _script(case)
    for run in script.runs:
        names = [spot.name for spot in run]
        adaptor = next(iter(_imports(run, _ADAPTOR)), None)
        early = _imports(run[: names.index(adaptor.name)], _MEGATRON) if adaptor else []
        if adaptor and early:
            yield error(
                f"{early[0].name} is imported before {adaptor.name}",
                observed=f"line {early[0].location.line} runs before line {adaptor.location.line}",
                required=f"import {adaptor.name} at the top, above Megatron",
                because="What megatron.core decides at its import cannot be patched afterwards.",
                remedy=Remedy(summary="Move the adaptor right after torch and torch_npu"),
                refs=(_PATCHES,),
                location=(adaptor if adaptor in script.late_imports else early[0]).location,
            )


@check("entry-set-device", "The entry file does not put every rank on device 0", scope="entry file")
def entry_set_device(case: Case) -> Iterator[Finding]:
    """set_device(0) with all devices visible puts every rank of a node on NPU 0.

    It is right only where ASCEND_RT_VISIBLE_DEVICES is set to one device for each rank, before
    torch_npu is imported. A file with nothing of several ranks in it is started alone.
    """
    script = _script(case)
    every = (*script.imports, *script.late_imports)
    if not _imports(every, _SEVERAL_RANKS) and not any(
        "distributed" in call.name or call.name.endswith(_GROUPS) for call in script.calls
    ):
        return
    own = any(_VISIBLE in call.argument for call in script.calls)
    for call in script.calls:
        if call.name in _SET_DEVICE and call.argument in {"0", "'npu:0'", "'cuda:0'"} and not own:
            yield warning(
                f"{call.name}({call.argument}) is the same device for every rank",
                observed=call.argument,
                required='int(os.environ["LOCAL_RANK"]), or one visible device for each rank',
                because="With several ranks HCCL fails to initialise, or hangs.",
                refs=("Ascend/pytorch@master:torch_npu/npu/__init__.py",),
                location=call.location,
            )


@check(
    "entry-optimizer-config",
    "The entry file uses fields that its Megatron defines",
    scope="entry file",
)
def entry_optimizer_config(case: Case) -> Iterator[Finding]:
    """OptimizerConfig has overlap_param_gather from megatron-core 0.14 on.

    get_megatron_optimizer takes no_weight_decay_cond, scale_lr_cond and lr_mult up to 0.15, and
    use_gloo_process_groups from 0.12 on.
    """
    script, newest = _script(case), version(case)
    if not newest:
        raise NotApplicable("no megatron-core is known; --megatron names its version")
    for spot in script.calls:
        call, name = spot.name.split(".")[-1], spot.argument.split("=")[0]
        allowed = _RANGES.get((call, name))
        if allowed and not satisfies("pep440", newest, allowed):
            yield error(
                f"{call} of megatron-core {newest} takes no {name}",
                observed=spot.argument,
                required=f"megatron-core {allowed}",
                because="The call raises TypeError.",
                refs=("NVIDIA/Megatron-LM@core_v0.12.1 to core_v0.19.0:megatron/core/optimizer",),
                location=spot.location,
            )


_RANGES = {
    ("OptimizerConfig", "overlap_param_gather"): ">=0.14",
    ("get_megatron_optimizer", "no_weight_decay_cond"): "<0.16",
    ("get_megatron_optimizer", "scale_lr_cond"): "<0.16",
    ("get_megatron_optimizer", "lr_mult"): "<0.16",
    ("get_megatron_optimizer", "config_overrides"): ">=0.16",
    ("get_megatron_optimizer", "use_gloo_process_groups"): ">=0.12",
}


@check("entry-gloo-bound-device", "Gloo groups are not bound to an NPU", scope="entry file")
def entry_gloo_bound_device(case: Case) -> Iterator[Finding]:
    """init_process_group with device_id binds later Gloo groups to the NPU, and they fail.

    torch asks every new group for the backend of the bound device. Gloo registers cpu and cuda
    only: a group with backend gloo raises "No backend type associated with device type npu".
    initialize_model_parallel makes such groups unless create_gloo_process_groups is False.
    """
    script = _script(case)
    gloo = [call for call in script.calls if _makes_gloo_group(call, script.calls)]
    inits = [call for call in script.calls if call.name.endswith("init_process_group")]
    bound = [init for init in inits if init.argument.startswith("device_id=")]
    hccl = any("hccl" in init.argument for init in inits)
    if gloo and hccl and bound:
        yield warning(
            "A group that is bound to an NPU breaks the Gloo groups after it",
            observed=f"init_process_group(device_id=...), {gloo[0].name}",
            required="init_process_group without device_id for hccl",
            refs=("Ascend/pytorch@v2.7.1-7.3.0:torch_npu/distributed/distributed_c10d.py:429",),
            location=bound[0].location,
        )


def _makes_gloo_group(call: Spot, calls: tuple[Spot, ...]) -> bool:
    if call.name.endswith("initialize_model_parallel"):
        return not any(spot.argument == "create_gloo_process_groups=False" for spot in calls)
    return "new_group" in call.name and call.argument == "backend='gloo'"


@check("entry-object-group", "Python objects travel over a Gloo group", scope="entry file")
def entry_object_group(case: Case) -> Iterator[Finding]:
    """all_gather_object and its kin without a group use the default group, which is HCCL's.

    torch then sends the objects as tensors of the current NPU. That is device 0 on every rank
    where set_device was not called, and the call hangs. Megatron has a Gloo group for them.
    """
    script = _script(case)
    inits = [call for call in script.calls if call.name.endswith("init_process_group")]
    hccl = any(init.argument in {"'hccl'", "backend='hccl'"} for init in inits)
    placed = any(call.name in _SET_DEVICE for call in script.calls)
    every = (*script.imports, *script.late_imports)
    if not hccl or (placed and not _imports(every, _MEGATRON)):
        return
    for call in script.calls:
        if call.name.endswith(_OF_OBJECTS) and call.argument == "group=None":
            yield warning(
                f"{call.name} sends objects over HCCL's default group",
                observed="no group",
                required="group=get_data_parallel_group_gloo(), or another Gloo group",
                because="Objects become tensors of the current NPU; ranks that have not chosen "
                "one wait for each other.",
                refs=(_OBJECTS,),
                location=call.location,
            )


@check("entry-adaptor", "Megatron is patched where it trains on NPUs", scope="entry file")
def entry_adaptor(case: Case) -> Iterator[Finding]:
    """An entry file that trains with Megatron on NPUs imports MindSpeed's adaptor.

    Without it Megatron calls CUDA's kernels and fails, or takes paths that are not for NPUs.
    """
    script = _script(case)
    every = (*script.imports, *script.late_imports)
    megatrons = _imports(script.imports, ("megatron.core", "megatron.training"))
    calls = tuple(call for call in script.calls if call.name.startswith("torch.npu."))
    on_npu = (*_imports(every, ("torch_npu",)), *calls)
    patched = _imports(every, (*_PATCHING, "swift"))
    if script.entry and megatrons and on_npu and not patched:
        yield warning(
            "Megatron is imported for NPUs without MindSpeed's adaptor",
            observed=f"{on_npu[0].name} and {megatrons[0].name}, no mindspeed",
            required="import mindspeed.megatron_adaptor above Megatron",
            because="Megatron asks for CUDA's kernels otherwise.",
            refs=(_PATCHES,),
            location=megatrons[0].location,
        )


@check("entry-visible-devices", "Visible devices are set before torch_npu", scope="entry file")
def entry_visible_devices(case: Case) -> Iterator[Finding]:
    """ASCEND_RT_VISIBLE_DEVICES is read once, when the runtime starts.

    An entry file that sets it below the import of torch_npu depends on nothing having touched a
    device until then; set by the launch or above the import it always holds.
    """
    script = _script(case)
    imported = _imports(script.imports, ("torch_npu", *_ADAPTOR))
    for spot in script.settings:
        first = imported[0].location.line if imported else spot.location.line
        if spot.argument == repr(_VISIBLE) and first < spot.location.line:
            yield warning(
                f"{_VISIBLE} is set after {imported[0].name} was imported",
                observed=f"line {spot.location.line} after line {first}",
                required="set it above the import, or in the launch",
                because="The runtime reads it once.",
                refs=("Ascend/pytorch@master:torch_npu/npu/__init__.py",),
                location=spot.location,
            )


@check("entry-cuda-device", "The entry file chooses an NPU, not a GPU", scope="entry file")
def entry_cuda_device(case: Case) -> Iterator[Finding]:
    """torch.cuda.set_device means an NPU only after torch_npu.contrib.transfer_to_npu.

    MindSpeed's adaptor imports it. Without either the call raises that torch has no CUDA.
    """
    script = _script(case)
    every = (*script.imports, *script.late_imports)
    if not _imports(every, ("torch_npu",)) or _imports(every, _PATCHING):
        return
    for call in script.calls:
        if script.entry and call.name == "torch.cuda.set_device":
            yield warning(
                "torch.cuda.set_device is called where torch_npu is used",
                observed="no torch_npu.contrib.transfer_to_npu",
                required="torch.npu.set_device",
                because="A torch without CUDA raises there.",
                refs=(_TRANSFER,),
                location=call.location,
            )


@check("entry-group-errors", "Errors of process groups are not passed over", scope="entry file")
def entry_group_errors(case: Case) -> Iterator[Finding]:
    """A group that one rank could not make is missing there, and the others wait for it.

    `except Exception: pass` around it turns an error with a reason into a hang without one. Around
    get_data_parallel_group_gloo it silently leaves the default group, HCCL's, in use.
    """
    for spot in _script(case).swallowed:
        name = spot.name.rpartition(".")[2]
        if name in _GROUPS or _GETS_GROUP.fullmatch(name):
            yield warning(
                f"Errors of {spot.name} are passed over",
                observed="the handler does nothing",
                required="let it raise, or end the process",
                because="A rank without the group leaves the others waiting, or uses another one.",
                location=spot.location,
            )
            return


@check("entry-boolean-index", "Forward passes do not wait for shapes", scope="entry file")
def entry_boolean_index(case: Case) -> Iterator[Finding]:
    """`x[mask]` gives as many elements as the mask is true, which only the device knows.

    Every rank waits for that number (aclnnNonzeroV2) in each step. In a loss function, and in what
    it calls, this is a warning; in a forward method it is a note. `torch.where(mask, x, 0)` keeps
    the shape, and `x.masked_fill(mask, value)` writes without it.
    """
    script = _script(case)
    for spot in (*script.loss_indexed, *script.indexed):
        title = f"{spot.name}[{spot.argument}] has a shape that only the device knows"
        because = f"torch.where({spot.argument}, {spot.name}, 0) keeps the shape."
        line = f"line {spot.location.line}"
        if spot in script.loss_indexed:
            yield warning(
                title, observed=line, because=because, refs=(_NONZERO,), location=spot.location
            )
        else:
            yield note(title, observed=line, because=because, refs=(_NONZERO,))


@check("entry-expert-tensor", "Groups and model have one expert tensor size", scope="entry file")
def entry_expert_tensor(case: Case) -> Iterator[Finding]:
    """initialize_model_parallel and the model's configuration both take the size, unset it is TP.

    Where only one of them is given it, groups and weights of experts are split differently. LoRA on
    experts needs 1.
    """
    calls: dict[str, list[Spot]] = {"groups": [], "configuration": []}
    for call in _script(case).calls:
        name = call.name.rpartition(".")[2]
        if name == "initialize_model_parallel":
            calls["groups"].append(call)
        elif name.endswith("TransformerConfig"):
            calls["configuration"].append(call)
    sizes = {
        side: {spot.argument for spot in spots if spot.argument.startswith(f"{_ETP}=")}
        for side, spots in calls.items()
    }
    if all(calls.values()) and bool(sizes["groups"]) != bool(sizes["configuration"]):
        lacking = "configuration" if sizes["groups"] else "groups"
        yield warning(
            f"{_ETP} is given to one side only",
            observed=f"{calls[lacking][0].name} takes it from TP",
            required=f"{_ETP} for the groups and for the model, or for neither",
            because="Unset it is TP, so that experts are split otherwise than their groups.",
            refs=(_ETP_OF_GROUPS, _ETP_OF_CONFIG),
            location=calls[lacking][0].location,
        )
    lora = [call for call in _script(case).calls if call.name.endswith("LoraConfig")]
    split = {
        spot.argument.partition("=")[0]
        for spot in calls["groups"]
        if _ABOVE_ONE.fullmatch(spot.argument)
    }
    if lora and len(split) == len(("tensor", "expert")) and not any(sizes.values()):
        yield warning(
            f"LoRA with experts, and {_ETP} is left out",
            observed="; ".join(sorted({spot.argument for spot in calls["groups"]})),
            required=f"{_ETP}=1 for the groups and for the model",
            because="Unset it is TP, and mcore-bridge refuses LoRA on experts above 1.",
            refs=(_ETP_OF_GROUPS, *behaviour_refs(case, "mcore-bridge", "lora-etp")),
            location=calls["groups"][0].location,
        )


@check("entry-saved-tensors", "Backward leaves saved tensors as they are", scope="entry file")
def entry_saved_tensors(case: Case) -> Iterator[Finding]:
    """What forward saved is read again where a graph is run twice, or kept by recomputation.

    A write into ctx.saved_tensors also changes the weight or the input that was saved.
    """
    for spot in _script(case).saved_writes:
        yield warning(
            f"{spot.name} is written into, which forward saved",
            observed=spot.argument,
            required=f"an operation that makes a new tensor, or {spot.name}.clone()",
            because="The saved tensor is the input or the weight itself.",
            refs=(_EXTENDING,),
            location=spot.location,
        )


@check("entry-one-device", "Ranks take the only device that they see", scope="entry file")
def entry_one_device(case: Case) -> Iterator[Finding]:
    """A rank that makes only its own device visible sees it as device 0.

    set_device(LOCAL_RANK) then fails with 107001 on all ranks but the first. The device of a rank
    is an element of the list that the launch sets, not the rank: ranks launched with 4,5,6,7 take
    0 to 3 otherwise.
    """
    script = _script(case)
    visible = [
        call
        for call in script.calls
        if call.name.startswith("os.environ of a rank") and call.argument == repr(_VISIBLE)
    ]
    chosen = [call for call in script.calls if call.name in _SET_DEVICE and not call.argument]
    if visible and chosen:
        yield warning(
            "One device is visible, and the rank chooses another",
            observed=f"{_VISIBLE} of a rank, {chosen[0].name} of a rank",
            required=f"{chosen[0].name}(0), or {_VISIBLE} as it was given",
            because="The only visible device is 0; any other gives 107001.",
            refs=("Ascend/pytorch@master:torch_npu/npu/__init__.py",),
            location=chosen[0].location,
        )
    elif visible and "list" not in visible[0].name:
        yield warning(
            f"{_VISIBLE} of the launch is overwritten with the rank",
            observed=f"{_VISIBLE} is the rank",
            required=f'os.environ["{_VISIBLE}"].split(",")[local_rank], where it is set',
            because="A job on devices 4 to 7 takes 0 to 3, which another job may use.",
            refs=(_DEVICES,),
            location=visible[0].location,
        )
