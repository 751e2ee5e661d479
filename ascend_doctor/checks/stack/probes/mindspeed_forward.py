"""What MindSpeed gives Megatron on one device, judged."""

from ascend_doctor.checks.probes.run_failures import ran, ran_well, refuse_late
from ascend_doctor.judging import Case, Findings, Unknown, check, error, note, warning
from ascend_doctor.probe_records.stack import ForwardCase, MindSpeedForwardRecord

_PROBE = "mindspeed-forward"
_MASK = (
    (
        "Ascend/MindSpeed@core_r0.15.3:"
        "mindspeed/core/transformer/flash_attention/generate_mask/generate_mask.py:21"
    ),
)
_RING = ("Ascend/MindSpeed@core_r0.15.3:mindspeed/core/context_parallel/model_parallel_utils.py",)
# float16 keeps 11 bits: a good one shows 1e-3, one without the causal mask 0.5.
_TOLERANCE = 1e-2


def _outcome(case: Case, name: str) -> ForwardCase:
    run = ran(case, _PROBE)
    outcome = run.first_record(MindSpeedForwardRecord).cases.get(name)
    if outcome is None:
        raise Unknown(f"the probe {_PROBE} did not get this far")
    refuse_late(outcome, name, _PROBE)
    return outcome


def _failures(outcome: ForwardCase, title: str, remedy: str) -> Findings:
    if outcome.error:
        yield error(title, observed=outcome.error, remedy=remedy)


@check("type-strings", "Tensors on NPUs call themselves CUDA tensors", level=2, probe=_PROBE)
def type_strings(case: Case) -> Findings:
    """Megatron's optimizers sort parameters by the text of Tensor.type().

    The 16-bit optimizers, the distributed optimizer and the clipping of gradients want
    torch.cuda.HalfTensor and the like, and refuse anything else. MindSpeed answers so for tensors
    on NPUs; if it does not, it was imported too late or patched something else.
    """
    ran_well(case, _PROBE)
    outcome = _outcome(case, "types")
    yield from _failures(outcome, "MindSpeed gives no types", "See stack-pair and import-order")
    named = {**outcome.types, "a parameter": outcome.parameter}
    absent = not outcome.error and not (outcome.types and outcome.parameter)
    wrong = {
        name: text for name, text in named.items() if text and not text.startswith("torch.cuda.")
    }
    if absent and not wrong:
        raise Unknown(f"the probe {_PROBE} recorded no types")
    if wrong:
        yield error(
            "Tensors on NPUs do not call themselves CUDA tensors",
            observed=", ".join(f"{name}: {text}" for name, text in wrong.items()),
            required="torch.cuda.FloatTensor and the like",
            because="Megatron's optimizers refuse such parameters.",
            remedy="Import mindspeed.megatron_adaptor before megatron.core",
        )


@check("use-flash", "Causal attention works without a mask", level=2, probe=_PROBE)
def use_flash(case: Case) -> Findings:
    """Frameworks give no mask to causal layers, and MindSpeed then makes one.

    It needs use_flash_attn=True in the configuration for that, or micro_batch_size; without either
    it stops with "Please set micro_batch_size or set use_flash_attn=True in config.". The probe
    runs both and compares with an exact attention.
    """
    for name, argument in (("flash", "use_flash_attn=True"), ("batch", "micro_batch_size")):
        outcome = _outcome(case, name)
        yield from _failures(
            outcome,
            f"Attention without a mask fails with {argument}",
            "Give it a mask, or the other of use_flash_attn and micro_batch_size",
        )
        if outcome.error:
            continue
        if outcome.off is None:
            raise Unknown(f"the probe {_PROBE} recorded no error of {name}")
        # Catches NaN, too.
        if not float(outcome.off) <= _TOLERANCE:
            yield error(
                f"Attention without a mask is wrong with {argument}",
                observed=f"off by {outcome.off}; {outcome.forward}",
                required=f"at most {_TOLERANCE:g} from an exact causal attention",
                because="The model sees what it should predict, or nothing of what it should see.",
                refs=_MASK,
            )
    refused = _outcome(case, "neither").error
    if refused:
        yield note(
            observed=f"with neither use_flash_attn nor micro_batch_size: {refused}", refs=_MASK
        )


@check("cp-ring", "The ring of context parallelism is built", level=2, probe=_PROBE)
def cp_ring(case: Case) -> Findings:
    """MindSpeed's ring attention asks for the ranks of its ring, which its group set-up must make.

    They are made only where the patches of context parallelism were in place by then: at
    optimization level 2, with context_parallel_size known before the groups are built. The probe
    builds the groups of two context parallel ranks, of which only the members are there.
    """
    outcome = _outcome(case, "ring")
    yield from _failures(
        outcome,
        "MindSpeed has no ring of context parallel ranks",
        "Set context_parallel_size and optimization level 2 before the import, or call "
        "initialize_context_parallel_group_for_double_ring(tp, pp, cp, {}) after the groups",
    )
    if outcome.error:
        return
    if not outcome.ring:
        raise Unknown(f"the probe {_PROBE} recorded no ring")
    if not set(outcome.ring) <= set(outcome.group):
        yield warning(
            "MindSpeed's ring has ranks of another group",
            observed=f"ring {outcome.ring}, group {outcome.group}",
            required="ranks of the context parallel group",
            refs=_RING,
        )
