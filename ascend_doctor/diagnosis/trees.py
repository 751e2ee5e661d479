"""Which node wrote a log tree of CANN, where several lie beside each other."""

import re
from collections.abc import Iterable

# ~/ascend/log/{debug,run,security}/{plog,device-N}/ (docs: "日志文件介绍" of CANN).
_TREE = re.compile(r"(?P<tree>.*)/(?:debug|run|security)/(?:plog|device-\d{1,4})/[^/]+$")


def nodes_of(names: Iterable[str]) -> dict[str, str]:
    """What distinguishes each file's tree, and files beside it; empty with one tree."""
    names = list(names)
    trees = {name: match["tree"].split("/") for name in names if (match := _TREE.match(name))}
    different = sorted({tuple(parts) for parts in trees.values()})
    if len(different) < 2:  # noqa: PLR2004 - one tree needs no name
        return {}
    first, last = different[0], different[-1]
    shared = next(
        (at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right),
        min(len(first), len(last)),
    )
    nodes = {parts: parts[shared] if shared < len(parts) else "" for parts in different}
    folders = {parts[: shared + 1]: node for parts, node in nodes.items() if node}
    beside = {name: folders.get(tuple(name.split("/")[:-1][: shared + 1]), "") for name in names}
    return beside | {name: nodes[tuple(parts)] for name, parts in trees.items()}
