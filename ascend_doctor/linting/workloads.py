"""Workloads of Kubernetes, Compose, Docker and Ray: their containers, and what is refused."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from ascend_doctor.checks.launch.option_names import describe_kind
from ascend_doctor.facts import UNTOLD, Allocation, ContainerSpec, ShellMark
from ascend_doctor.findings import Place
from ascend_doctor.judging.spelling import slip_of
from ascend_doctor.linting.bash import ShellCommand
from ascend_doctor.linting.documents import Leaf
from ascend_doctor.linting.positioned_text import Word, locate
from ascend_doctor.linting.shell_marks import mark
from ascend_doctor.patterns import patterns_of

Fields = Mapping[str, Mapping[str, str | None]]
Option = tuple[str, str, Place]
Described = tuple[ContainerSpec, tuple[ShellMark, ...]]

_TAGS = {"text": ("str", "a text in quotes"), "int": ("int", "a number"), "bool": ("bool", "true")}
_PLAIN, _DEVICE = patterns_of(__file__)
_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_JUDGED = frozenset({"image", "resources", "volumeMounts"})
_RAY, _DOCKER = re.compile(r"(?<!\S)(?:\S*/)?ray start "), re.compile(r"(?:docker|podman) run ")


class PodContainer(msgspec.Struct, frozen=True):
    """A container of a pod: its variables, and its command as words or as a script."""

    spec: ContainerSpec
    allocation: Allocation
    variables: dict[str, Word]
    words: tuple[Word, ...]
    scripts: tuple[Leaf, ...]


def name_kind(document: Sequence[Leaf]) -> str:
    """The kind of a workload, compose for services; else ""."""
    top = {leaf.path[:1]: leaf.text for leaf in document}
    if ("apiVersion",) in top:
        return top.get(("kind",), "")
    services = (leaf.path[2:3] for leaf in document if leaf.path[:1] == ("services",))
    return "compose" if {("image",), ("build",)} & {*services} else ""


def read_containers(document: Sequence[Leaf], file: str) -> Iterator[PodContainer]:
    """The containers of a workload of any kind; none of another document."""
    groups: dict[tuple[str, ...], list[Leaf]] = {}
    for leaf in document if name_kind(document) not in {"", "compose"} else ():
        for position, key in enumerate(leaf.path[:-2]):
            if key in {"containers", "initContainers"} and leaf.path[position + 1].isdecimal():
                groups.setdefault(leaf.path[: position + 2], []).append(leaf)
                break
    for path, group in groups.items():
        yield _read_container(document, path, group, file)


def _read_container(
    document: Sequence[Leaf], path: tuple[str, ...], group: Sequence[Leaf], file: str
) -> PodContainer:
    pod, start = path[:-2], len(path) - 2
    whole = {leaf.path[start:]: leaf.text for leaf in document if leaf.path[:start] == pod}
    own = {leaf.path[len(path) :]: leaf for leaf in group}
    shown = {"/".join(where): leaf for where, leaf in own.items() if where[0] in _JUDGED}
    volumes = {
        text: whole.get((*where[:2], "hostPath", "path"), "")
        for where, text in whole.items()
        if where[:1] == ("volumes",) and where[2:] == ("name",)
    }
    claims = (leaf for leaf in document if "volumeClaimTemplates" in leaf.path)
    volumes |= {leaf.text: "" for leaf in claims if leaf.path[-2:] == ("metadata", "name")}
    spec = ContainerSpec(
        texts={name: leaf.text for name, leaf in shown.items()},
        volumes=volumes,
        host_ipc=whole.get(("hostIPC",), "").lower() == "true",
        places={
            "container": locate(group[0], file),
            **{name: locate(leaf, file) for name, leaf in shown.items()},
        },
    )
    commands = [leaf for where, leaf in own.items() if where[0] in {"command", "args"}]
    scripts = [leaf for leaf in commands if "\n" in leaf.text or leaf.text.count(" ") > 1]
    words = [Word(leaf.text, leaf.line, leaf.column) for leaf in commands if leaf not in scripts]
    values = {where[1]: leaf.text for where, leaf in own.items() if where[::2] == ("env", "value")}
    variables = {
        leaf.text: Word(values.get(where[1], UNTOLD), leaf.line, leaf.column)
        for where, leaf in own.items()
        if where[::2] == ("env", "name")
    }
    return PodContainer(
        spec, _allot(spec, count_pods(document)), variables, tuple(words), tuple(scripts)
    )


def _allot(spec: ContainerSpec, count: int) -> Allocation:
    for name, amount in sorted(spec.texts.items()):  # limits before requests
        if _DEVICE.fullmatch(name) and amount.isdecimal():
            places = {"devices": spec.places[name]}
            return Allocation(nodes=count, devices=int(amount[:6]), places=places)
    return Allocation(nodes=count)


def count_pods(document: Sequence[Leaf], under: tuple[str, ...] = ()) -> int:
    """The pods of a workload, or of a part of it; 0 if unknown."""
    whole = (leaf.path for leaf in document if "template" in leaf.path)
    paths = {path[: path.index("template")] for path in whole}
    counts = {
        leaf.path[:-1]: leaf.text
        for leaf in document
        if leaf.path[-1:] in {("replicas",), ("parallelism",)}
    }
    paths = {path for path in paths if path[: len(under)] == under} or paths
    listed = [counts.get(path, "1") for path in paths]
    return sum(map(int, listed)) if all(map(str.isdecimal, listed)) else 0


def find_faults(document: Sequence[Leaf], fields: Fields, file: str) -> Iterator[ShellMark]:
    """Unknown keys that resemble known ones, values of another type, and gangs above their pods."""
    kind = name_kind(document)
    spots: dict[tuple[int, int], ShellMark] = {}
    objects: dict[str, dict[str, str | None]] = {}
    for leaf in document if kind else ():
        for depth, key in enumerate(leaf.path):
            line, column = leaf.spots[depth]
            above = "/".join((kind, *("", "", *leaf.path[:depth])[-2:]))
            if above not in objects:
                objects[above] = _list_keys(above, fields)
            known = objects[above]
            takes = known.get(key, known.get("*")) or ""
            near = "" if key in known or "*" in known else slip_of(key, known)
            if near:
                where = Place(file=file, line=line, column=column)
                spots.setdefault((line, column), mark("no-field", where, key, near))
        text, rule = f"{''.join(leaf.path[-1:])}: {leaf.text}", "field-value"
        near = _describe(takes, leaf) if leaf.path else ""
        if leaf.path[-1:] == ("minAvailable",) and leaf.text.isdecimal():
            count = count_pods(document, leaf.path[:-1])
            rule, near = "gang", str(count) if 0 < count < int(leaf.text[:9]) else ""
        if near:
            yield mark(rule, locate(leaf, file), text, near)
    yield from spots.values()


def _list_keys(where: str, fields: Fields) -> dict[str, str | None]:
    return {
        key: takes
        for patterns, keys in fields.items()
        if any(fnmatchcase(where, pattern) for pattern in patterns.split())
        for key, takes in keys.items()
    }


def _describe(takes: str, leaf: Leaf) -> str:
    tag, text = _TAGS.get(takes, ("", ""))
    if leaf.tag == "null" or "$" in leaf.text:
        return ""
    if not tag:
        return describe_kind(takes, leaf.text)
    wrong = leaf.tag != tag and (tag != "str" or _PLAIN.fullmatch(leaf.text))
    return text if wrong else ""


def describe_services(document: Sequence[Leaf], file: str) -> Iterator[Described]:
    """The services of Compose, each with its marks."""
    listed: dict[tuple[str, ...], list[Option]] = {}
    for leaf in document if name_kind(document) == "compose" else ():
        if leaf.path[-2:-1] in {("volumes",), ("devices",)}:
            option = (leaf.path[-2], leaf.text, locate(leaf, file))
            listed.setdefault(leaf.path[:-2], []).append(option)
    yield from map(_describe_container, listed.values())


def describe_runs(commands: Iterable[ShellCommand], file: str) -> Iterator[Described]:
    """The containers of `docker run`, each with its marks."""
    for command in commands:
        if _DOCKER.search(" ".join(word.text for word in command.words)):
            yield _describe_container(_options(command, file))


def _options(command: ShellCommand, file: str) -> Iterator[Option]:
    for word, following in zip(command.words, (*command.words[1:], None), strict=True):
        name, equals, value = word.text.partition("=")
        behind = following if not equals and following is not None else word
        yield name, value if equals else behind.text, locate(behind, file)


def _describe_container(options: Iterable[Option]) -> Described:
    spec = ContainerSpec()
    marks: list[ShellMark] = []
    for number, (name, text, where) in enumerate(options):
        here, _, there = text.partition(":")
        near = slip_of(here.rpartition("/")[2], _NODES)
        if name in {"devices", "--device"} and near and not here.endswith(near):
            marks.append(mark("no-device", where, here, near))
        elif name in {"volumes", "--volume", "-v"}:
            mount = f"volumeMounts/{number}"
            path = there.partition(":")[0]
            spec.texts.update({f"{mount}/mountPath": path, f"{mount}/name": here})
            spec.volumes[here] = here
            spec.places[f"{mount}/mountPath"] = where
    return spec, tuple(marks)


def find_ray_faults(commands: Iterable[ShellCommand], file: str) -> Iterator[ShellMark]:
    """Resources of `ray start` that are not JSON, and workers that join at another port."""
    heads: set[str] = set()
    joins: list[tuple[str, Place]] = []
    for command in commands:
        if not _RAY.search(" ".join(word.text for word in command.words)):
            continue
        options = {name: (value, where) for name, value, where in _options(command, file)}
        resources, where = options.get("--resources", ("{}", Place(file=file, line=1)))
        if not _is_json(resources):
            yield mark("not-json", where, resources)
        if "--head" in options:
            heads.add(options.get("--port", ("6379", where))[0])
        elif "--address" in options:
            address, where = options["--address"]
            joins.append((address.rpartition(":")[2], where))
    for port, where in joins if heads and all(map(str.isdecimal, heads)) else ():
        if port.isdecimal() and port not in heads:
            yield mark("other-port", where, port, min(heads))


def _is_json(text: str) -> bool:
    try:
        return text == UNTOLD or isinstance(
            msgspec.json.decode(text.replace(UNTOLD, "1").replace("\\", "")), dict
        )
    except msgspec.DecodeError:
        return False
