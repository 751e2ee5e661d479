"""A Python entry file: the order of imports, and which device a rank takes."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.checks.launch.options import version
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
_ETP = "expert_tensor_parallel_size"
_ETP_OF_GROUPS = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/parallel_state.py:743"
_ETP_OF_CONFIG = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/model_parallel_config.py:361"
_EXTENDING = "https://docs.pytorch.org/docs/stable/notes/extending.html"
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
    adaptors, megatrons = (_imports(script.imports, names) for names in (_ADAPTOR, _MEGATRON))
    late = _imports(script.late_imports, _ADAPTOR)
    if script.entry and late and not adaptors and megatrons:
        yield error(
            f"{late[0].name} is imported in a function, {megatrons[0].name} before it",
            observed=f"line {late[0].location.line} runs after line {megatrons[0].location.line}",
            required=f"import {late[0].name} at the top, above Megatron",
            because="What megatron.core decides at its import cannot be patched afterwards.",
            remedy=Remedy(summary="Move the adaptor right after torch and torch_npu"),
            refs=(_PATCHES,),
            location=late[0].location,
        )
    if not adaptors:
        return
    first = adaptors[0].location.line
    early = [megatron for megatron in megatrons if megatron.location.line < first]
    if early:
        yield error(
            f"{early[0].name} is imported before {adaptors[0].name}",
            observed=f"line {early[0].location.line} before line {first}",
            required=f"import {adaptors[0].name} above it",
            because="What megatron.core decides at its import cannot be patched afterwards.",
            remedy=Remedy(summary="Move the adaptor right after torch and torch_npu"),
            refs=(_PATCHES,),
            location=early[0].location,
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

    torch asks every new group for the backend of the bound device; Gloo registers cpu and cuda
    only, so that a group with backend gloo raises "No backend type associated with device type
    npu".
    """
    script = _script(case)
    gloo = any(
        call.argument == "backend='gloo'" for call in script.calls if "new_group" in call.name
    )
    inits = [call for call in script.calls if call.name.endswith("init_process_group")]
    bound = [init for init in inits if init.argument.startswith("device_id=")]
    hccl = any("hccl" in init.argument for init in inits)
    if gloo and hccl and bound:
        yield warning(
            "A group that is bound to an NPU breaks the Gloo groups after it",
            observed="init_process_group(device_id=...), new_group(backend='gloo')",
            required="init_process_group without device_id for hccl",
            refs=("Ascend/pytorch@v2.7.1-7.3.0:torch_npu/distributed/distributed_c10d.py:429",),
            location=bound[0].location,
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

    `except Exception: pass` around it turns an error with a reason into a hang without one.
    """
    for spot in _script(case).swallowed:
        if spot.name.rpartition(".")[2] in _GROUPS:
            yield warning(
                f"Errors of {spot.name} are passed over",
                observed="except: pass",
                required="let it raise, or end the process",
                because="A rank without the group leaves the others waiting.",
                location=spot.location,
            )
            return


@check("entry-boolean-index", "Forward passes do not wait for shapes", scope="entry file")
def entry_boolean_index(case: Case) -> Iterator[Finding]:
    """`x[mask]` gives as many elements as the mask is true, which only the device knows.

    Every rank waits for that number (aclnnNonzeroV2) in each step. `torch.where(mask, x, 0)` keeps
    the shape, and `x.masked_fill(mask, value)` writes without it.
    """
    for spot in _script(case).indexed:
        yield note(
            f"{spot.name}[{spot.argument}] has a shape that only the device knows",
            observed=f"line {spot.location.line}",
            because=f"torch.where({spot.argument}, {spot.name}, 0) keeps the shape.",
            refs=(_NONZERO,),
        )


@check("entry-expert-tensor", "Groups and model have one expert tensor size", scope="entry file")
def entry_expert_tensor(case: Case) -> Iterator[Finding]:
    """initialize_model_parallel and the model's configuration both take the size, unset it is TP.

    Where only one of them is given it, groups and weights of experts are split differently.
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

    set_device(LOCAL_RANK) then fails with 107001 on all ranks but the first.
    """
    script = _script(case)
    visible = [
        call
        for call in script.calls
        if call.name == "os.environ of a rank" and call.argument == repr(_VISIBLE)
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
