"""What MindSpeed gives Megatron on one device, judged."""

from ascend_doctor.checks.probes.run_failures import ran, ran_well, refuse_late
from ascend_doctor.judging import Case, Findings, Texts, Unknown, error, note
from ascend_doctor.probe_records.stack import ForwardCase, MindSpeedForwardRecord

TEXTS = Texts("mindspeed-forward")

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


@TEXTS.check("type-strings", level=2, probe=_PROBE)
def type_strings(case: Case) -> Findings:
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
        yield TEXTS.finding(
            "tensors-npus", observed=", ".join(f"{name}: {text}" for name, text in wrong.items())
        )


@TEXTS.check("use-flash", level=2, probe=_PROBE)
def use_flash(case: Case) -> Findings:
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
            yield TEXTS.finding(
                "attention-without",
                required=f"at most {_TOLERANCE:g} from an exact causal attention",
                refs=_MASK,
                argument=argument,
                outcome=outcome,
            )
    refused = _outcome(case, "neither").error
    if refused:
        yield note(
            observed=f"with neither use_flash_attn nor micro_batch_size: {refused}", refs=_MASK
        )


@TEXTS.check("cp-ring", level=2, probe=_PROBE)
def cp_ring(case: Case) -> Findings:
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
        yield TEXTS.finding("mindspeed-s", refs=_RING, outcome=outcome)
