"""Which node wrote a log tree of CANN, where several lie beside each other."""

from __future__ import annotations

import re
from collections.abc import Iterable

# ~/ascend/log/{debug,run,security}/{plog,device-N}/ (docs: "日志文件介绍" of CANN).
_TREE = re.compile(r"(?P<tree>.*)/(?:debug|run|security)/(?:plog|device-\d{1,4})/[^/]+$")


def nodes_of(names: Iterable[str]) -> dict[str, str]:
    """By file, what tells its tree from the others; nothing where there is one."""
    trees = {name: match["tree"].split("/") for name in names if (match := _TREE.match(name))}
    different = sorted({tuple(parts) for parts in trees.values()})
    if len(different) < 2:  # noqa: PLR2004 - one tree needs no name
        return {}
    first, last = different[0], different[-1]
    shared = next(
        (at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right),
        min(len(first), len(last)),
    )
    return {name: parts[shared] if shared < len(parts) else "" for name, parts in trees.items()}
