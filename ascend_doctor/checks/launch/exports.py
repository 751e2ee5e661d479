"""Variables that a script sets for a launch: PYTHONPATH, and those that it does not export."""

import re
from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, warning

# PYTHONPATH=$PYTHONPATH:MORE keeps the old value first.
_APPENDED = re.compile(r"^\$(?:PYTHONPATH|\{PYTHONPATH(?::?-)?\}):(.*)$", re.DOTALL)
_EXPANSION = re.compile(r"\$\{[^}]*\}")
_MEGATRON = re.compile(r"megatron|mindspeed", re.IGNORECASE)


@check("variables-exported", "Variables reach the training that they are set for", scope="launch")
def variables_exported(case: Case) -> Iterator[Finding]:
    """A variable on a line of its own reaches a command only if it is exported.

    HCCL, CANN and torch_npu then take their defaults, and nothing says so.
    """
    launch = case.need(Launch)
    for name in launch.unexported:
        yield warning(
            f"{name} is set and not exported",
            observed=f"{name}=... on a line of its own",
            required=f"export {name}=...",
            because="The training does not see it.",
            remedy=Remedy(summary="Export it"),
            location=launch.places.get(name),
        )


@check(
    "pythonpath-prepended", "A checkout of Megatron-LM stands first on PYTHONPATH", scope="launch"
)
def pythonpath_prepended(case: Case) -> Iterator[Finding]:
    """A checkout that is appended to PYTHONPATH loses to what stands before it.

    An empty entry (a colon at an end, or two in a row) is the folder where the program starts.
    `megatron` is a namespace package: its parts come from the first entry that has them, so that
    megatron.core of one copy and megatron.training of another are imported together.
    """
    launch = case.need(Launch)
    if not launch.pythonpath:
        raise NotApplicable("the launch does not set PYTHONPATH")
    if "" in _EXPANSION.sub("$", launch.pythonpath).split(":"):
        yield warning(
            "PYTHONPATH has an empty entry, which stands for the current folder",
            observed=launch.pythonpath,
            required="no colon at the ends, no two in a row",
            because="Packages in the folder where the program starts hide installed ones.",
            refs=("https://docs.python.org/3/using/cmdline.html#envvar-PYTHONPATH",),
            location=launch.places.get("PYTHONPATH"),
        )
    match = _APPENDED.match(launch.pythonpath)
    if match and _MEGATRON.search(match.group(1)):
        yield warning(
            "A checkout is appended to PYTHONPATH",
            observed="PYTHONPATH=$PYTHONPATH:...",
            required="PYTHONPATH=...:$PYTHONPATH",
            because="Another copy that stands before it is imported instead, or half of it.",
            remedy=Remedy(summary="Put the checkout first"),
            refs=("modelscope/ms-swift@3602360a:docs/source_en/BestPractices/NPU-support.md",),
            location=launch.places.get("PYTHONPATH"),
        )
