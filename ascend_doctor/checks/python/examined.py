"""The interpreter that is examined: the one that trains."""

import shlex

from ascend_doctor.facts import ImportPath, Python
from ascend_doctor.judging import Case, Findings, Level, NotApplicable, Texts

TEXTS = Texts("examined")


@TEXTS.check("examined-python")
def _name_python(case: Case) -> Findings:
    python = case.need(Python)
    if python.other_releases and not python.importable.get("torch"):
        yield TEXTS.finding(
            "other-release", folders=", ".join(python.other_releases), python=python
        )
        return
    if python.own:
        return
    if python.doctor is None or "torch_npu" not in python.doctor.packages:
        raise NotApplicable("the doctor's own environment has no torch_npu")
    path = case.need(ImportPath)
    if any(python.importable.get(name) for name in ("torch", "torch_npu")) or any(
        path.find(name).copies for name in ("megatron", "mindspeed")
    ):
        return
    chosen = python.by != "PATH"
    own = shlex.quote(python.doctor.executable)
    yield TEXTS.finding(
        "nothing",
        level=Level.WARNING if chosen else None,
        by=f"{python.by} names" if chosen else "PATH has first, for no environment is active",
        commands=(f"ascend-doctor check --python {own}",),
        python=python,
        listed=", ".join(python.doctor.packages),
    )
