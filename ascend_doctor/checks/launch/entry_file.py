"""A Python entry file: the order of imports, and which device a rank takes."""

from ascend_doctor.checks.launch.options import behaviour_refs, version
from ascend_doctor.facts import Script, Spot
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts
from ascend_doctor.judging.version_compare import is_in_range, leading
from ascend_doctor.patterns import patterns_of

TEXTS = Texts("entry-file")

_ADAPTOR = ("mindspeed.megatron_adaptor", "mindspeed_llm.megatron_adaptor")
_MEGATRON = ("megatron.core", "megatron.training", "mcore_bridge", "swift.megatron")
_SET_DEVICE = ("torch.npu.set_device", "torch_npu.npu.set_device", "torch.cuda.set_device")
_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
# They patch torch.cuda to mean the NPU.
_PATCHING = ("torch_npu.contrib", "mindspeed", "mindspeed_llm", "mindspeed_mm", "mindspeed_rl")
_SEVERAL_RANKS = (
    *("torch.distributed", "megatron", "mcore_bridge", "mindspeed", "mindspeed_llm"),
    *("mindspeed_mm", "swift", "verl", "twinkle", "deepspeed", "accelerate"),
)
_GROUPS = ("init_process_group", "new_group", "new_subgroups")
_GETS_GROUP, _ABOVE_ONE = patterns_of(__file__)
_OF_OBJECTS = ("all_gather_object", "broadcast_object_list", "gather_object")
_ETP = "expert_tensor_parallel_size"


def _script(case: Case) -> Script:
    if case.facts.script is None:
        raise NotApplicable("no Python file was given; `ascend-doctor lint FILE` reads one")
    return case.facts.script


def _imports(spots: tuple[Spot, ...], names: tuple[str, ...]) -> list[Spot]:
    return [spot for spot in spots if any(f"{spot.name}.".startswith(f"{name}.") for name in names)]


@TEXTS.check("entry-import-order")
def _entry_import_order(case: Case) -> Findings:
    script = _script(case)
    for run in script.runs:
        names = [spot.name for spot in run]
        adaptor = next(iter(_imports(run, _ADAPTOR)), None)
        early = _imports(run[: names.index(adaptor.name)], _MEGATRON) if adaptor else []
        if adaptor and early:
            where = (adaptor if adaptor in script.late_imports else early[0]).location
            yield TEXTS.finding("late-adaptor", where, early=early[0], adaptor=adaptor)


@TEXTS.check("entry-set-device")
def _entry_set_device(case: Case) -> Findings:
    script = _script(case)
    every = (*script.imports, *script.late_imports)
    if not _imports(every, _SEVERAL_RANKS) and not any(
        "distributed" in call.name or call.name.endswith(_GROUPS) for call in script.calls
    ):
        return
    own = any(_VISIBLE in call.argument for call in script.calls)
    for call in script.calls:
        if call.name in _SET_DEVICE and call.argument in {"0", "'npu:0'", "'cuda:0'"} and not own:
            yield TEXTS.finding("one-device-for-all", call.location, call=call)


@TEXTS.check("entry-optimizer-config")
def _entry_optimizer_config(case: Case) -> Findings:
    script, newest = _script(case), version(case)
    if not newest:
        raise NotApplicable("no megatron-core is known; --megatron names its version")
    functions = case.catalog.component("megatron-core").functions
    known = {function.name.rpartition(".")[2]: function for function in functions}
    # A release candidate counts as its release.
    release = ".".join(map(str, leading(newest, 3)))
    for spot in script.calls:
        call, name = spot.name.split(".")[-1], spot.argument.split("=")[0]
        allowed = known[call].releases_with(name) if call in known else ()
        if allowed and not any(not each or is_in_range(release, each) for each in allowed):
            yield TEXTS.finding(
                "no-such-field",
                spot.location,
                call=call,
                newest=newest,
                name=name,
                observed=spot.argument,
                allowed=" or ".join(allowed),
            )


@TEXTS.check("entry-gloo-bound-device")
def _entry_gloo_bound_device(case: Case) -> Findings:
    script = _script(case)
    gloo = [call for call in script.calls if _makes_gloo_group(call, script.calls)]
    inits = [call for call in script.calls if call.name.endswith("init_process_group")]
    bound = [init for init in inits if init.argument.startswith("device_id=")]
    hccl = any("hccl" in init.argument for init in inits)
    if gloo and hccl and bound:
        yield TEXTS.finding("bound-gloo", bound[0].location, group=gloo[0].name)


def _makes_gloo_group(call: Spot, calls: tuple[Spot, ...]) -> bool:
    if call.name.endswith("initialize_model_parallel"):
        return not any(spot.argument == "create_gloo_process_groups=False" for spot in calls)
    return "new_group" in call.name and call.argument == "backend='gloo'"


@TEXTS.check("entry-object-group")
def _entry_object_group(case: Case) -> Findings:
    script = _script(case)
    inits = [call for call in script.calls if call.name.endswith("init_process_group")]
    hccl = any(init.argument in {"'hccl'", "backend='hccl'"} for init in inits)
    placed = any(call.name in _SET_DEVICE for call in script.calls)
    every = (*script.imports, *script.late_imports)
    if not hccl or (placed and not _imports(every, _MEGATRON)):
        return
    for call in script.calls:
        if call.name.endswith(_OF_OBJECTS) and call.argument == "group=None":
            yield TEXTS.finding("objects-over-hccl", call.location, call=call)


@TEXTS.check("entry-adaptor")
def _entry_adaptor(case: Case) -> Findings:
    script = _script(case)
    every = (*script.imports, *script.late_imports)
    megatrons = _imports(script.imports, ("megatron.core", "megatron.training"))
    calls = tuple(call for call in script.calls if call.name.startswith("torch.npu."))
    on_npu = (*_imports(every, ("torch_npu",)), *calls)
    patched = _imports(every, (*_PATCHING, "swift"))
    if script.entry and megatrons and on_npu and not patched:
        first = megatrons[0]
        yield TEXTS.finding("no-adaptor", first.location, npu=on_npu[0], megatron=first)


@TEXTS.check("entry-visible-devices")
def _entry_visible_devices(case: Case) -> Findings:
    script = _script(case)
    imported = _imports(script.imports, ("torch_npu", *_ADAPTOR))
    for spot in script.settings:
        first = imported[0].location.line if imported else spot.location.line
        if spot.argument == repr(_VISIBLE) and first < spot.location.line:
            yield TEXTS.finding("late-visible-devices", spot.location, spot=spot, first=imported[0])


@TEXTS.check("entry-cuda-device")
def _entry_cuda_device(case: Case) -> Findings:
    script = _script(case)
    every = (*script.imports, *script.late_imports)
    if not _imports(every, ("torch_npu",)) or _imports(every, _PATCHING):
        return
    for call in script.calls:
        if script.entry and call.name == "torch.cuda.set_device":
            yield TEXTS.finding("cuda-device", call.location)


@TEXTS.check("entry-group-errors")
def _entry_group_errors(case: Case) -> Findings:
    for spot in _script(case).swallowed:
        name = spot.name.rpartition(".")[2]
        if name in _GROUPS or _GETS_GROUP.fullmatch(name):
            yield TEXTS.finding("passed-over", spot.location, spot=spot)
            return


@TEXTS.check("entry-expert-tensor")
def _entry_expert_tensor(case: Case) -> Findings:
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
        yield TEXTS.finding("one-side", calls[lacking][0].location, call=calls[lacking][0].name)
    lora = [call for call in _script(case).calls if call.name.endswith("LoraConfig")]
    split = {
        spot.argument.partition("=")[0]
        for spot in calls["groups"]
        if _ABOVE_ONE.fullmatch(spot.argument)
    }
    if lora and len(split) == len(("tensor", "expert")) and not any(sizes.values()):
        sized = {spot.argument for spot in calls["groups"] if "size" in spot.argument}
        refs, where = behaviour_refs(case, "mcore-bridge", "lora-etp"), calls["groups"][0].location
        yield TEXTS.finding("lora-on-experts", where, refs=refs, sizes="; ".join(sorted(sized)))


@TEXTS.check("entry-one-device")
def _entry_one_device(case: Case) -> Findings:
    script = _script(case)
    visible = [
        call
        for call in script.calls
        if call.name.startswith("os.environ of a rank") and call.argument == repr(_VISIBLE)
    ]
    chosen = [call for call in script.calls if call.name in _SET_DEVICE and not call.argument]
    if visible and chosen:
        yield TEXTS.finding("other-than-visible", chosen[0].location, call=chosen[0].name)
    elif visible and "list" not in visible[0].name:
        yield TEXTS.finding("overwritten", visible[0].location)
