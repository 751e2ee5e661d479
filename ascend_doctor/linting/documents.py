"""YAML: verl's configurations and the pods of Kubernetes, with the places of their values."""

import functools
from collections.abc import Iterator

import msgspec

from ascend_doctor import facts
from ascend_doctor.errors import DataError
from ascend_doctor.facts import UNTOLD
from ascend_doctor.findings import Place
from ascend_doctor.linting.positioned_text import Piece, Word
from ascend_doctor.machine.parsing import check_yaml

_MOST_NODES = 50_000
_MOST_DEPTH = 60


class Leaf(msgspec.Struct, frozen=True):
    """A scalar: its keys or list numbers, whether written as |, its last key's line and column."""

    path: tuple[str, ...]
    text: str
    line: int
    column: int
    block: bool = False
    key: tuple[int, int] | None = None


def leaves(content: str) -> tuple[tuple[Leaf, ...], ...] | None:
    """The scalars of every document; None if it is not YAML."""
    try:
        return _read(content)
    except DataError:
        return None


def why_unread(content: str) -> str:
    """Why this is not YAML, as a template of Helm or Jinja; "" if it is."""
    try:
        _read(content)
    except DataError as error:
        return str(error).removeprefix(": ")
    return ""


@functools.lru_cache(maxsize=1)  # the same file is asked for its launches, and why it has none
def _read(content: str) -> tuple[tuple[Leaf, ...], ...]:
    import yaml  # noqa: PLC0415 - only to lint a file of YAML

    try:
        check_yaml(content, "")
        documents = list(yaml.compose_all(content, Loader=yaml.CSafeLoader))
        return tuple(
            tuple(_walk(document, (), 0, [0])) for document in documents if document is not None
        )
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DataError(" ".join(str(error).split())) from error


def _walk(
    node: object,
    path: tuple[str, ...],
    depth: int,
    count: list[int],
    above: tuple[int, int] | None = None,
) -> Iterator[Leaf]:
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode  # noqa: PLC0415 - as above

    count[0] += 1
    # Anchors can make a small file endless.
    if count[0] > _MOST_NODES or depth > _MOST_DEPTH:
        return
    if isinstance(node, ScalarNode):
        mark = node.start_mark
        block = node.style in {"|", ">"}
        yield Leaf(path, node.value, mark.line + 1, mark.column + 1, block, above)
    elif isinstance(node, SequenceNode):
        for position, child in enumerate(node.value):
            yield from _walk(child, (*path, str(position)), depth + 1, count, above)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                # YAML's merge key: its keys are this mapping's.
                inner = path if key.value == "<<" else (*path, key.value)
                mark = key.start_mark
                spot = (mark.line + 1, mark.column + 1)
                yield from _walk(value, inner, depth + 1, count, spot)


def is_of_verl(document: tuple[Leaf, ...]) -> bool:
    """Whether this is verl's, in whole or part: others use its words otherwise."""
    return any(
        leaf.path[:1] == ("actor_rollout_ref",)
        or (leaf.path[-1:] == ("_target_",) and leaf.text.startswith("verl."))
        for leaf in document
    )


def hydra(document: tuple[Leaf, ...]) -> tuple[Word, ...]:
    """A configuration as overrides: a.b.c=value; interpolations are unknown."""
    return tuple(
        Word(
            f"{'.'.join(leaf.path)}={UNTOLD if '${' in leaf.text else leaf.text}",
            leaf.line,
            leaf.column,
            (Piece(UNTOLD, leaf.line, leaf.column, leaf.text),) if "${" in leaf.text else (),
        )
        for leaf in document
        if leaf.path
    )


class PodContainer(msgspec.Struct, frozen=True):
    """A container of a pod: its variables, and its command as words or as a script.

    ``leaves`` are its scalars, with paths from it; ``host_ipc`` and ``volumes`` are its pod's,
    volumes with their path on the host, else "".
    """

    variables: dict[str, Word]
    words: tuple[Word, ...]
    scripts: tuple[Leaf, ...]
    leaves: tuple[Leaf, ...] = ()
    host_ipc: bool = False
    volumes: dict[str, str] = {}


def containers(document: tuple[Leaf, ...]) -> tuple[PodContainer, ...]:
    """The containers of a workload of any kind; none for another document."""
    if not {"kind", "apiVersion"} <= {leaf.path[0] for leaf in document if leaf.path}:
        return ()
    groups: dict[tuple[str, ...], list[Leaf]] = {}
    for leaf in document:
        for position, key in enumerate(leaf.path[:-1]):
            if key in {"containers", "initContainers"} and leaf.path[position + 1].isdecimal():
                groups.setdefault(leaf.path[: position + 2], []).append(leaf)
                break
    shared = {
        leaf.path[:-1]
        for leaf in document
        if leaf.path[-1:] == ("hostIPC",) and leaf.text.lower() == "true"
    }
    return tuple(
        msgspec.structs.replace(
            _container(path, group),
            host_ipc=path[:-2] in shared,
            volumes=_volumes(document, path[:-2]),
        )
        for path, group in groups.items()
    )


def _volumes(document: tuple[Leaf, ...], pod: tuple[str, ...]) -> dict[str, str]:
    names: dict[tuple[str, ...], str] = {}
    hosts: dict[tuple[str, ...], str] = {}
    for leaf in document:
        of_pod = leaf.path[: len(pod)] == pod and leaf.path[len(pod) : len(pod) + 1] == ("volumes",)
        volume = leaf.path[: len(pod) + 2] if of_pod else leaf.path[:-1]
        claimed = "volumeClaimTemplates" in leaf.path and leaf.path[-2] == "metadata"
        if leaf.path[-1:] == ("name",) and (claimed or (of_pod and volume == leaf.path[:-1])):
            names[volume] = leaf.text
        elif of_pod and leaf.path[-2:] == ("hostPath", "path"):
            hosts[volume] = leaf.text
    return {name: hosts.get(volume, "") for volume, name in names.items()}


def _is_lost(name: str, volumes: dict[str, str]) -> bool:
    """A part of a pod without volumes may be merged with one that has them."""
    return bool(volumes) and name not in volumes


def _container(path: tuple[str, ...], leafs: list[Leaf]) -> PodContainer:
    names: dict[str, Leaf] = {}
    values: dict[str, Leaf] = {}
    words: list[Word] = []
    scripts: list[Leaf] = []
    for leaf in leafs:
        match leaf.path[len(path) :]:
            case ("env", position, "name"):
                names[position] = leaf
            case ("env", position, "value"):
                values[position] = leaf
            case ("command" | "args", _):
                if "\n" in leaf.text or leaf.text.count(" ") > 1:
                    scripts.append(leaf)
                else:
                    words.append(Word(leaf.text, leaf.line, leaf.column))
            case _:
                pass
    variables = {
        name.text: Word(values[position].text, name.line, name.column)
        if position in values
        else Word(UNTOLD, name.line, name.column)
        for position, name in names.items()
    }
    own = tuple(msgspec.structs.replace(leaf, path=leaf.path[len(path) :]) for leaf in leafs)
    return PodContainer(variables, tuple(words), tuple(scripts), own)


def describe_container(container: PodContainer, file: str, ranks: int) -> facts.ContainerSpec:
    """The container for checks; ``ranks`` are those that its command starts."""
    quantities: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    names = {"name": "", "image": ""}
    mounts: dict[str, str] = {}
    mounted: dict[str, str] = {}
    lost: list[str] = []
    places: dict[str, Place] = {}
    for leaf in container.leaves:
        where = Place(file=file, line=leaf.line, column=leaf.column)
        places.setdefault("container", where)
        match leaf.path:
            case ("name" | "image" as name,):
                names[name], places[name] = leaf.text, where
            case ("resources", "requests" | "limits" as kind, resource):
                quantities[kind][resource] = leaf.text
                places[f"{kind}/{resource}"] = where
            case ("volumeMounts", number, "mountPath"):
                mounts[number] = leaf.text
                places[f"volumeMounts/{leaf.text}"] = where
            case ("volumeMounts", number, "name"):
                mounted[number] = container.volumes.get(leaf.text, "")
                if _is_lost(leaf.text, container.volumes):
                    lost.append(leaf.text)
                    places[f"volumeMounts/{leaf.text}"] = where
            case _:
                pass
    return facts.ContainerSpec(
        name=names["name"],
        image=names["image"],
        requests=quantities["requests"],
        limits=quantities["limits"],
        mounts=tuple(mounts.values()),
        host_paths={path: mounted.get(number, "") for number, path in mounts.items()},
        lost_mounts=tuple(lost),
        host_ipc=container.host_ipc,
        ranks=ranks,
        places=places,
    )
