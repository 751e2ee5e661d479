"""What a planned layout is started with: variables, and a launch to paste."""

import os
import shlex
from collections.abc import Iterator

from ascend_doctor.planning.flags import ms_swift
from ascend_doctor.planning.ranking import RankedLayout
from ascend_doctor.planning.rules import LayoutQuery

_NODE = 8


def environment(asked: LayoutQuery) -> Iterator[str]:
    """The variables that the model needs, as shell lines.

    Source: modelscope/mcore-bridge@v1.0.0:src/mcore_bridge/config/parser.py.
    """
    if asked.model.delta is not None:
        yield f"export USE_MCORE_GDN={0 if asked.model.delta.whole else 1}"


def setup_command(asked: LayoutQuery) -> str:
    version = asked.megatron or ("0.16.1" if asked.model.delta is not None else "")
    return "ascend-doctor setup --framework ms-swift" + (f" --megatron {version}" * bool(version))


def launch(asked: LayoutQuery, ranked: RankedLayout, per_node: int) -> Iterator[str]:
    """A script that starts ms-swift with this layout and asks for DATASET.

    If a node's NPU count is unknown, the script also asks for more than 8.
    """
    npus = ranked.layout.npus
    each = per_node or (npus if npus <= _NODE else 0)
    yield from environment(asked)
    yield f"export NPROC_PER_NODE={min(each, npus) if each else '${NPROC_PER_NODE:?}'}"
    if not each or npus > each:
        yield f"export NNODES={npus // each if each else '${NNODES:?}'}"
        yield "export NODE_RANK=${NODE_RANK:?} MASTER_ADDR=${MASTER_ADDR:?}"
    yield "megatron sft \\"
    name = asked.model.names[0] if asked.model.names else os.path.dirname(asked.model.title) or "."
    yield f"    --model {shlex.quote(name)} \\"
    yield '    --dataset "${DATASET:?}" \\'
    options = ms_swift(asked, ranked)
    yield from (f"    {option} \\" for option in options[:-1])
    yield f"    {options[-1]}"
