"""What lint finds in a text or in its launches."""

from collections.abc import Iterable

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import LintInput, Shellcheck, subjects
from ascend_doctor.linting.launch_checks import findings, machine, unique
from ascend_doctor.matrix.catalog import Catalog

CATALOG = Catalog()
CHECKS = tuple(check for check in all_checks() if check.scope)


def judge_inputs(
    inputs: Iterable[LintInput], megatron: str = "", soc: str = "", *, allow: bool = False
) -> list[Finding]:
    base = machine(megatron, soc)
    judged = (
        finding
        for each in inputs
        for finding in findings(each, base, CATALOG, CHECKS, allow_unresolved=allow)
    )
    return list(unique(tuple(judged)))


def judge_text(
    path: str,
    text: str | bytes,
    megatron: str = "",
    soc: str = "",
    *,
    allow: bool = False,
    shellcheck: Shellcheck | None = None,
) -> list[Finding]:
    content = text.encode() if isinstance(text, str) else text
    return judge_inputs(subjects(path, content, CATALOG, shellcheck), megatron, soc, allow=allow)


def mistakes(judged: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in judged if finding.level in {Level.ERROR, Level.WARNING}]
