"""The environment variables that are set here, and how findings speak of them."""

import shlex

from ascend_doctor.facts import Environment
from ascend_doctor.findings import Remedy
from ascend_doctor.judging.judge import Case
from ascend_doctor.judging.packages import npu_only
from ascend_doctor.patterns import defer

_NUMBER = defer(r"[0-9]{1,18}(\.[0-9]{1,18})?")


def settings(case: Case) -> dict[str, str]:
    """Values by name; an empty value counts as unset. Raises Unknown, NotApplicable off NPUs."""
    npu_only(case)
    return {name: text for name, text in case.need(Environment).variables.items() if text}


def number(text: str | None, default: float) -> float | None:
    """The number of a variable, the default if unset, None if not a number."""
    if text is None:
        return default
    return float(text) if _NUMBER.fullmatch(text) else None


def show_values(values: dict[str, str], *names: str) -> str:
    """Names and values with visible quotes and control characters."""
    return "; ".join(f"{n}={values[n]!r}" if n in values else f"{n} unset" for n in names)


def unset(*names: str) -> Remedy:
    return Remedy(
        summary="Unset it in this shell, and where your profile or start script sets it",
        commands=(f"unset {' '.join(map(shlex.quote, names))}",),
    )
