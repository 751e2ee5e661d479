"""Frameworks: whether their own documents name the stack that is here."""

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.judging import Case, Findings, Texts, matrix_fit
from ascend_doctor.judging.packages import distribution, find_distribution, npu_only
from ascend_doctor.matrix.schema import Need, urls

TEXTS = Texts("frameworks")

_FRAMEWORKS = {
    "ms-swift": "ms-swift",
    "twinkle": "twinkle-kit",
    "verl": "verl",
    "mindspeed-llm": "mindspeed-llm",
    "mindspeed-mm": "mindspeed-mm",
    "mindspeed-rl": "mindspeed-rl",
}


@TEXTS.check("framework-stack")
def framework_stack(case: Case) -> Findings:
    npu_only(case)
    there = False
    for component, name in _FRAMEWORKS.items():
        distribution = find_distribution(case, name)
        if distribution is None:
            continue
        there = True
        row = matrix_fit.release(case, component, distribution.version)
        if row is None:
            yield TEXTS.finding("no-row", name=name, version=distribution.version)
            continue
        found_out = [_difference(case, need) for need in row.requires]
        other = [relation for relation in found_out if isinstance(relation, matrix_fit.Relation)]
        untold = dict.fromkeys(text for text in found_out if isinstance(text, str))
        if other:
            yield TEXTS.finding(
                "other-versions",
                name=name,
                version=distribution.version,
                here=", ".join(f"{each.need.component} {each.have}" for each in other),
                needed=", ".join(f"{each.need.component} {each.range_text}" for each in other),
                refs=urls(row.sources),
            )
        if untold:
            yield TEXTS.finding(
                "untold", name=name, version=distribution.version, untold="; ".join(untold)
            )
    if not there:
        raise NotApplicable("no framework of the matrix is installed")


def _difference(case: Case, need: Need) -> matrix_fit.Relation | str | None:
    """A relation outside of the documents, or why it is undetermined; else None."""
    try:
        if not matrix_fit.applies(case, need):
            return None
        relation = matrix_fit.relation(case, need, matrix_fit.present(case, need.component))
    except NotApplicable:
        return None
    except Unknown as reason:
        # A need that binds only if present, as Megatron-LM's checkout, may be absent.
        return None if need.optional else str(reason)
    return relation if relation.fit in ("doubt", "bad") and not relation.allowed else None


@TEXTS.check("twinkle-mindspeed-numpy")
def twinkle_mindspeed_numpy(case: Case) -> Findings:
    distribution(case, "mindspeed")
    twinkle = distribution(case, "twinkle-kit")
    numpy = find_distribution(case, "numpy")
    here = numpy.version if numpy else "not installed"
    yield TEXTS.finding("two-numpys", version=twinkle.version, numpy=here)
