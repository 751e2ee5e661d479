"""Checkpoints that torch.load takes again."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Python
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, warning
from ascend_doctor.judging.packages import find_distribution
from ascend_doctor.judging.source_trees import core
from ascend_doctor.judging.version_compare import is_in_range


@check("enum-pickling", "Checkpoints of this Python can be loaded again")
def enum_pickling(case: Case) -> Iterator[Finding]:
    """Megatron's checkpoints have members of enums, which an early Python 3.11 pickles by getattr.

    Since torch 2.6 torch.load calls no function that it does not know, so that no run is resumed
    from such a checkpoint: "Unsupported global: GLOBAL getattr". Debian 12 has such a Python,
    3.11.2; 3.10.13, 3.11.7 and 3.12.1 pickle by value. The interpreter is asked, not its number.
    """
    python = case.need(Python)
    core(case)
    torch = find_distribution(case, "torch")
    if torch is None or not is_in_range(torch.version, ">=2.6"):
        raise NotApplicable("torch.load of this torch takes any object")
    if python.enums_by_getattr is None:
        raise Unknown("this record does not tell how its Python pickles enums")
    if python.enums_by_getattr:
        yield warning(
            f"Python {python.version} writes Megatron checkpoints that torch.load refuses",
            observed=f"Python {python.version} pickles members of an enum by getattr",
            required="a Python that pickles them by value",
            because="torch.load reads tensors and known classes only, and calls no getattr: a run "
            "cannot be resumed.",
            remedy=Remedy(
                summary="Build the environment anew with Python 3.11.7 or another one that pickles "
                "by value",
            ),
            refs=(
                "https://github.com/python/cpython/blob/v3.11.2/Lib/enum.py",
                "https://github.com/pytorch/pytorch/blob/main/torch/_weights_only_unpickler.py",
            ),
        )
