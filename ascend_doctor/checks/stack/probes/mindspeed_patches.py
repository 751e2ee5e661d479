"""MindSpeed in the process that trains: the pair, the order, its arguments and its patches."""

from collections.abc import Mapping

from ascend_doctor.checks.probes.run_failures import ran, ran_well, refuse_late, story
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.judging import Case, Finding, Findings, Remedy, Texts, error, note
from ascend_doctor.judging.version_compare import leading
from ascend_doctor.probe_records.stack import (
    Binding,
    MindSpeedPatchesRecord,
    PatchCase,
    PatchedImport,
)

TEXTS = Texts("mindspeed-patches")

_PROBE = "mindspeed-patches"
_PATCH_UTILS = "Ascend/MindSpeed@core_r0.15.3:mindspeed/patch_utils.py"
_ARGS_UTILS = "Ascend/MindSpeed@core_r0.15.3:mindspeed/args_utils.py"
_REPATCHING = ("arguments", "repatch", "again")
# Stand-ins of CUDA extensions unused on NPUs; a repatch always changes them.
_HARMLESS = ("flash_attn.", "fused_layer_norm_cuda")
_OLDER = "This MindSpeed is for an older Megatron"
_NEWER = "This MindSpeed is for a newer Megatron"
_FIT = "Take the MindSpeed branch for this Megatron, or the Megatron of this branch"
_TRITON = "Install the triton-ascend that fits this CANN, in place of triton"
# How one wrong pair was seen to end: text of the error, reason, what to do.
_SIGNATURES = (
    ("activation_recompute_forward", _OLDER, _FIT),
    ("expert_dist_ckpt_decorator", _OLDER, _FIT),
    ("ModelCommProcessGroups", _OLDER, _FIT),
    ("ProcessGroupCollection", _NEWER, _FIT),
    (
        "No module named 'megatron.training'",
        "This MindSpeed imports megatron.training, which pip's megatron-core has from 0.17 on",
        "Put the Megatron-LM checkout of this release in front of PYTHONPATH",
    ),
    (
        "No module named 'megatron_adaptor'",
        "From core_r0.17.0 on MindSpeed stands on MegatronAdaptor",
        "Install MegatronAdaptor and TransformerEngineNPU from their repositories first",
    ),
    ("No module named 'triton'", "From core_r0.16.0 on MindSpeed imports Triton kernels", _TRITON),
    (
        "names that are not kernel arguments",
        "MindSpeed's kernels are for triton-ascend, not for the Triton that is installed",
        _TRITON,
    ),
)


def _record(case: Case) -> MindSpeedPatchesRecord:
    return ran(case, _PROBE).first_record(MindSpeedPatchesRecord)


def _outcome(case: Case, name: str) -> PatchCase:
    """Raises Unknown if the case did not run, NotApplicable if MindSpeed cannot be imported."""
    record = _record(case)
    if name != "import" and record.cases.get("import", PatchCase()).error:
        raise NotApplicable("MindSpeed cannot be imported, see stack-pair")
    if name in _REPATCHING and record.repatches is False:
        raise NotApplicable("this MindSpeed has no repatch")
    outcome = record.cases.get(name)
    if outcome is None:
        raise Unknown(f"the probe {_PROBE} did not get this far")
    refuse_late(outcome, name, _PROBE)
    return outcome


def _failures(outcome: PatchCase, title: str) -> Findings:
    if outcome.error:
        yield error(title, observed=story(outcome))


def _real(bindings: Mapping[str, Binding]) -> dict[str, Binding]:
    return {name: bindings[name] for name in bindings if not name.startswith(_HARMLESS)}


def _list_changes(outcome: PatchCase) -> dict[str, Binding]:
    if isinstance(outcome.changed, dict):
        return outcome.changed
    return dict.fromkeys(outcome.changed, (None, None))


@TEXTS.check("stack-pair", level=1, probe="mindspeed-patches")
def stack_pair(case: Case) -> Findings:
    ran_well(case, _PROBE)
    outcome = _outcome(case, "import")
    if outcome.error:
        yield _unfit(outcome.error)
        return
    line, version = str(_record(case).line), str(outcome.megatron)
    newest = line.endswith("newer")
    required_line = leading(line.partition(" ")[0], 2)
    here = leading(version, 2)
    if here < required_line or (here != required_line and not newest):
        yield TEXTS.finding(
            "mindspeed-s",
            remedy=Remedy(summary=_FIT),
            refs=(_PATCH_UTILS,),
            line=line,
            outcome=outcome,
            version=version,
        )
    elif outcome.applied != outcome.patches:
        yield TEXTS.finding("unapplied", outcome=outcome)
    else:
        whole = "" if outcome.training else ", without megatron.training"
        yield note(observed=f"{outcome.patches} patches on megatron.core {version}{whole}")


def _unfit(text: str) -> Finding:
    known = next((signature for signature in _SIGNATURES if signature[0] in text), None)
    _, because, remedy = known or ("", "", "")
    return TEXTS.finding(
        "without-patches",
        title="MindSpeed cannot be imported"
        + (f": {because[0].lower()}{because[1:]}" if because else ""),
        observed=text,
        remedy=Remedy(summary=remedy) if remedy else None,
    )


def import_order_faults(outcome: PatchedImport) -> str:
    """Wrong decisions of megatron.core due to its import before MindSpeed, or ""."""
    wrong = [
        f"{name} is {value}"
        for name, value in outcome.decisions.items()
        if value is (not name.endswith("HAVE_TE")) or str(value).startswith("torch.")
    ]
    if outcome.order and outcome.order.after_adaptor is False:
        stack = outcome.order.stack or ["unknown"]
        wrong.append(f"megatron.core was imported first at {stack[-1]}")
    return "; ".join(wrong)


ORDER = Remedy(
    summary="Import mindspeed.megatron_adaptor right after torch_npu, before anything of megatron, "
    "mcore_bridge or transformer_engine"
)
LATE = (
    "What Megatron decided while it was imported stays: no Transformer Engine, torch's optimizer, "
    "torch.compile. All patches count as applied all the same."
)


@TEXTS.check("import-order", level=1, probe="mindspeed-patches")
def import_order(case: Case) -> Findings:
    outcome = _outcome(case, "import")
    if outcome.error:
        raise NotApplicable("MindSpeed cannot be imported, see stack-pair")
    wrong = import_order_faults(outcome)
    if wrong:
        yield TEXTS.finding("megatron-was", observed=wrong, because=LATE, remedy=ORDER)


@TEXTS.check("mindspeed-args", level=1, probe="mindspeed-patches")
def mindspeed_args(case: Case) -> Findings:
    base = _outcome(case, "import")
    off: dict[str, str] = {}
    for name in ("arguments", "repatch"):
        outcome = _outcome(case, name)
        yield from _failures(outcome, f"MindSpeed stops at the arguments of a plan ({name})")
        off |= outcome.off
    if off:
        yield TEXTS.finding(
            "unseen-arguments",
            refs=(_ARGS_UTILS,),
            values=", ".join((f"{key} {value}" for key, value in off.items())),
        )
    if base.optimization_level != 2:  # noqa: PLR2004 - MindSpeed's own default
        yield TEXTS.finding("low-level", base=base)
    yield from _find_left_out(case)


def _find_left_out(case: Case) -> Findings:
    """What the arguments that twinkle builds for a dense model leave out."""
    outcome = _record(case).cases.get("twinkle", PatchCase())
    if outcome.error:
        raise Unknown(f"twinkle's arguments could not be tried: {outcome.error}")
    lost = [_short(name) for name in _list_changes(outcome) if name.startswith("megatron.")]
    if lost:
        yield TEXTS.finding(
            "below-vocabulary",
            title=f"twinkle leaves out {len(lost)} patches of MindSpeed in dense models",
            observed=f"plain Megatron's: {', '.join(lost)}",
        )


@TEXTS.check("first-repatch", level=1, probe="mindspeed-patches")
def first_repatch(case: Case) -> Findings:
    late = _outcome(case, "repatch")
    first, same = _outcome(case, "arguments"), _outcome(case, "again")
    broken = [*_failures(late, "MindSpeed's repatch fails")]
    yield from broken
    if broken:
        return
    if first.error:
        raise Unknown("with these arguments MindSpeed cannot be imported, see mindspeed-args")
    # repatch-keeps-patches reports what any repatch loses.
    lost = set(_list_changes(same))
    differ = _real(_record(case).differ)
    missing = sorted(set(differ) - lost)
    if missing:
        yield TEXTS.finding(
            "lacking-repatch",
            refs=(_PATCH_UTILS,),
            bindings=_list_bindings({name: differ[name] for name in missing}),
        )
    else:
        needed = sorted(set(_real(_list_changes(late))) - lost)
        yield TEXTS.finding(
            "bound-by-repatch", count=len(needed), names=", ".join(map(_short, needed))
        )


@TEXTS.check("repatch-keeps-patches", level=1, probe="mindspeed-patches")
def repatch_keeps_patches(case: Case) -> Findings:
    outcome = _outcome(case, "again")
    yield from _failures(outcome, "MindSpeed's repatch fails with the arguments that it has")
    lost = _real(_list_changes(outcome))
    if lost:
        yield TEXTS.finding("lost-by-repatch", count=len(lost), bindings=_list_bindings(lost))


def _short(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def _list_bindings(bindings: Mapping[str, Binding]) -> str:
    return "\n".join(
        f"{_short(name)}: {after or 'nothing'}, was {before or 'nothing'}"
        for name, (before, after) in sorted(bindings.items())
    )


@TEXTS.check("argv-leak", level=1, probe="mindspeed-patches")
def argv_leak(case: Case) -> Findings:
    leaked = _outcome(case, "import").leaked
    taken = _outcome(case, "argv")
    if leaked:
        yield TEXTS.finding("leaked-arguments", leaked=", ".join(leaked))
    elif taken.taken:
        shown = ", ".join(f"{name}={value}" for name, value in taken.taken.items())
        yield note(observed=f"those of a program that imports it do: {shown}", refs=(_ARGS_UTILS,))
