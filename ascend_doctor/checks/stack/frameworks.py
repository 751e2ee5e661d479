"""Frameworks: whether their own documents name the stack that is here."""

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.judging import Case, Findings, check, matrix_fit, unknown, warning
from ascend_doctor.judging.packages import distribution, find_distribution, npu_only
from ascend_doctor.matrix.schema import Need, urls

_FRAMEWORKS = {
    "ms-swift": "ms-swift",
    "twinkle": "twinkle-kit",
    "verl": "verl",
    "mindspeed-llm": "mindspeed-llm",
    "mindspeed-mm": "mindspeed-mm",
    "mindspeed-rl": "mindspeed-rl",
}


@check("framework-stack", "The stack matches the framework's documentation")
def framework_stack(case: Case) -> Findings:
    """ms-swift, twinkle, verl and the MindSpeed suites document a set of versions per release.

    Outside of that set things may well work; others have not reported that they do. Where the
    documents disagree, any of their versions counts. The finding names each difference, so that
    you can compare when something fails.
    """
    npu_only(case)
    there = False
    for component, name in _FRAMEWORKS.items():
        distribution = find_distribution(case, name)
        if distribution is None:
            continue
        there = True
        row = matrix_fit.release(case, component, distribution.version)
        if row is None:
            yield unknown(
                f"No table has {name} {distribution.version}",
                observed=f"{name} {distribution.version}",
                because="What its documents name is not known.",
            )
            continue
        found_out = [_difference(case, need) for need in row.requires]
        other = [relation for relation in found_out if isinstance(relation, matrix_fit.Relation)]
        untold = dict.fromkeys(text for text in found_out if isinstance(text, str))
        if other:
            yield warning(
                f"{name} {distribution.version} is documented with other versions: "
                + ", ".join(
                    f"{relation.need.component} {relation.range_text}" for relation in other
                ),
                observed=", ".join(
                    f"{relation.need.component} {relation.have}" for relation in other
                ),
                required=", ".join(
                    f"{relation.need.component} {relation.range_text}" for relation in other
                ),
                because="This set is not the one of its documents; that it works is not reported.",
                remedy="Move to the documented versions together, or keep this in mind when "
                "something fails",
                refs=urls(row.sources),
            )
        if untold:
            yield unknown(
                f"Whether this is the stack that {name} {distribution.version} documents could "
                "not be told in full",
                observed="; ".join(untold),
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


@check("twinkle-mindspeed-numpy", "MindSpeed and twinkle accept the same NumPy")
def twinkle_mindspeed_numpy(case: Case) -> Findings:
    """twinkle-kit requires NumPy 2.0 to 2.2, MindSpeed requires at most 1.26.0.

    No NumPy satisfies both. People run the pair all the same; which of the two then misbehaves is
    not documented. Installing one of them again moves NumPy, so check it after every install.
    """
    distribution(case, "mindspeed")
    twinkle = distribution(case, "twinkle-kit")
    numpy = find_distribution(case, "numpy")
    yield warning(
        f"twinkle-kit {twinkle.version} and MindSpeed require different releases of NumPy",
        observed=f"numpy {numpy.version if numpy else 'not installed'}",
        required="numpy >=2.0.0,<2.3.0 for twinkle-kit, <=1.26.0 for MindSpeed",
        because="No release satisfies both; one of the two runs outside of what it declares.",
        refs=(
            "Ascend/MindSpeed@core_r0.15.3:requirements.txt",
            "modelscope/twinkle@main:pyproject.toml",
        ),
    )
