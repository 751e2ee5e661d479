"""What a launch is started with, so that its log can say which rank a hang began with."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from ascend_doctor.collect.launch import parse_options
from ascend_doctor.shrinking.words import TORCH_MODULES

_REPORT = "TORCH_HCCL_DESYNC_DEBUG"
# The older spelling, which the newer one overrules, and what conflicts with the report:
# torch_npu's ProcessGroupHCCL.cpp and OptionsManager.cpp.
_LEFT_TO_THE_USER = (
    *(_REPORT, "HCCL_DESYNC_DEBUG"),
    *("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING"),
    "TORCH_HCCL_BLOCKING_WAIT",
)
# The number of nodes, if no option gives it.
_NODES = {"torchrun": "PET_NNODES", "swift": "NNODES", "megatron": "NNODES"}


def watchdog_variables(launch: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that make torch_npu's watchdog report who did not join a collective.

    Only for one node: torch_npu's documentation warns that they may hang a large cluster.
    TORCH_HCCL_DUMP_ON_TIMEOUT stays off: a timed-out rank would hold its NPU ten minutes longer.
    """
    if any(name in environment for name in _LEFT_TO_THE_USER):
        return {}
    return {_REPORT: "1"} if is_of_one_node(launch, environment) else {}


def is_of_one_node(launch: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether the command itself limits its ranks to this node."""
    return _nodes(launch, environment) == "1"


def _nodes(launch: Sequence[str], environment: Mapping[str, str]) -> str:
    variable = _NODES.get(_launcher(launch), "")
    if not variable:
        return ""
    return parse_options(launch).get("nnodes") or environment.get(variable) or "1"


def _launcher(launch: Sequence[str]) -> str:
    name = PurePath(launch[0]).name
    modules = {after for word, after in itertools.pairwise(launch) if word == "-m"}
    return "torchrun" if name.startswith("python") and modules & TORCH_MODULES else name
