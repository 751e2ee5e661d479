"""Checkpoints that can be written, and that torch.load takes again."""

from ascend_doctor.facts import Python
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown
from ascend_doctor.judging.packages import find_distribution
from ascend_doctor.judging.source_trees import core, core_version
from ascend_doctor.judging.version_compare import is_in_range

TEXTS = Texts("checkpoint-files")


@TEXTS.check("enum-pickling")
def _enum_pickling(case: Case) -> Findings:
    python = case.need(Python)
    core(case)
    torch = find_distribution(case, "torch")
    if torch is None or not is_in_range(torch.version, ">=2.6"):
        raise NotApplicable("torch.load of this torch takes any object")
    if python.enums_by_getattr is None:
        raise Unknown("this record does not tell how its Python pickles enums")
    if python.enums_by_getattr:
        yield TEXTS.finding("enum-by-getattr", python=python)


@TEXTS.check("checkpoint-writer")
def _checkpoint_writer(case: Case) -> Findings:
    version = core_version(case)
    torch = find_distribution(case, "torch")
    if torch is None or not is_in_range(torch.version, ">=2.8"):
        raise NotApplicable("torch has no such argument")
    if is_in_range(version, "<0.13"):
        yield TEXTS.finding("torch-dist", version=version, torch=torch)
