"""What a launch is started with, so that its log can say which rank a hang began with."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from ascend_doctor.collect.launch import parse_options
from ascend_doctor.shrinking.words import TORCH_MODULES

_REPORT = "TORCH_HCCL_DESYNC_DEBUG"
# The older spelling, which the newer one would overrule; and what the report would overrule or be
# overruled by: torch_npu's ProcessGroupHCCL.cpp and OptionsManager.cpp.
_LEFT_TO_THE_USER = (
    *(_REPORT, "HCCL_DESYNC_DEBUG"),
    *("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING"),
    "TORCH_HCCL_BLOCKING_WAIT",
)
# Where each launcher takes the number of nodes from, if no option gives it.
_NODES = {"torchrun": "PET_NNODES", "swift": "NNODES", "megatron": "NNODES"}


def watchdog_variables(launch: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for torch_npu's watchdog to report who did not join a collective.

    Only where the command itself says that it is of one node: torch_npu's documentation of the
    variable warns that a large cluster may hang with it. TORCH_HCCL_DUMP_ON_TIMEOUT stays off: a
    rank that timed out would hold its NPU for ten minutes more, and the watch asks before that.
    """
    if any(name in environment for name in _LEFT_TO_THE_USER):
        return {}
    return {_REPORT: "1"} if is_of_one_node(launch, environment) else {}


def is_of_one_node(launch: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether the command itself says that it starts ranks on this node alone."""
    return _nodes(launch, environment) == "1"


def _nodes(launch: Sequence[str], environment: Mapping[str, str]) -> str:
    """The number of nodes as it is given; empty where the launcher is not known."""
    variable = _NODES.get(_launcher(launch), "")
    if not variable:
        return ""
    return parse_options(launch).get("nnodes") or environment.get(variable) or "1"


def _launcher(launch: Sequence[str]) -> str:
    name = PurePath(launch[0]).name
    modules = {after for word, after in itertools.pairwise(launch) if word == "-m"}
    return "torchrun" if name.startswith("python") and modules & TORCH_MODULES else name
