"""Command lines over broken files: what is broken, how, and how often."""

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import yaml

from ascend_doctor.provision import lock as locks
from ascend_doctor.render.formats import FORMATS
from tests.hostile import seeds
from tests.hostile.mutations import as_bytes, as_json, as_tree, as_yaml, by_hand, everywhere

# The unchanged file: if it is refused, broken ones would fail for the same reason.
WHOLE = "whole"


class Job(NamedTuple):
    """``name``: what is tried; ``shape``: the output format."""

    name: str
    arguments: tuple[str, ...]
    shape: str = "text"


class Files:
    """Writes inputs, each under a new name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = 0

    def new(self, name: str) -> Path:
        self._number += 1
        folder = self.folder / f"{self._number:04}"
        folder.mkdir()
        return folder / name

    def put(self, name: str, data: bytes) -> str:
        path = self.new(name)
        path.write_bytes(data)
        return str(path)


def jobs(folder: Path) -> Iterator[Job]:
    files = Files(folder)
    yield from _reports(files)
    yield from _endless(files)
    yield from _logs(files)
    yield from _launches(files)
    yield from _models(files)
    yield from _locks(files)
    yield from _machines(files)
    yield from _rows(files)


def _reports(files: Files) -> Iterator[Job]:
    shapes = cycle(FORMATS)
    report = seeds.report()
    data = as_json(report)
    whole = files.put("n0.json", data)
    broken = [
        (WHOLE, data),
        *by_hand(),
        *(("tree", content) for content in as_tree(report, as_json, 70, "judge")),
        *(("bytes", content) for content in as_bytes(data, 30, "judge")),
        *(("hostile texts", as_json(document)) for document in _hostile(report)),
        *(("long words", as_json(_report_with(report, word))) for word in _LONG),
    ]
    for name, text in broken:
        shape, file = next(shapes), files.put("n1.json", text)
        yield Job(f"judge {name}", ("judge", file, "--format", shape), shape)
        shape = next(shapes)
        yield Job(f"merge {name}", ("merge", whole, file, "--format", shape), shape)
    two = cycle(("text", "json"))
    for name, text in broken[::3]:
        shape, file = next(two), files.put("n1.json", text)
        yield Job(f"diff {name}", ("diff", whole, file, "--format", shape), shape)
    for shape in FORMATS:
        for ill in _hostile(report):
            file = files.put("n1.json", as_json(ill))
            yield Job("merge hostile texts", ("merge", file, "--format", shape), shape)
            yield Job("judge hostile texts", ("judge", file, "--format", shape), shape)


def _endless(files: Files) -> Iterator[Job]:
    """More than fits in memory, in one line."""
    path = files.new("n1.json")
    with path.open("wb") as file:
        file.write(b'{"schema": 1, "x": "')
        file.truncate(600 << 20)
    for arguments in (("judge",), ("merge",), ("lint",), ("plan", "--npus", "8", "--model")):
        yield Job(f"{arguments[0]} of 600 MB", (*arguments, str(path)))


def _hostile(report: dict[str, object]) -> Iterator[object]:
    """Hostile texts where a report stays valid."""
    findings = report["findings"]
    assert isinstance(findings, list)
    ill = {**report, "host": "n1\n::error::x", "findings": [_ill(finding) for finding in findings]}
    snapshot = report["snapshot"]
    assert isinstance(snapshot, dict)
    head = {key: snapshot[key] for key in ("schema", "taken_at", "redacted", "simulated")}
    yield {**ill, "snapshot": {**everywhere(snapshot), **head}}
    yield everywhere(report)


# Hours of work for patterns that try every beginning.
_LONG = tuple(
    (word * 120_000)[:120_000]
    for word in (
        *("a", "A1", "a_", "a-", "--a-", "a.", "a@", "1.", "1:", "::", "/home", "=", "token=", '"'),
        *("mysql ", "login ", "eyJ", "-----BEGIN PRIVATE KEY-----", "x-by", "http://a:", "sk-"),
    )
)


def _report_with(report: dict[str, object], text: str) -> dict[str, object]:
    finding = {"check": "x", "level": "error", "title": "t", "found": text, "because": text}
    return {**report, "findings": [finding]}


def _ill(finding: dict[str, object]) -> dict[str, object]:
    fixed = {"check": finding["check"], "level": "error"}
    texts = {name: everywhere("x") for name in ("title", "found", "wanted", "because")}
    location = {"file": everywhere("a/b.sh"), "line": 1, "column": 1}
    remedy = {"summary": everywhere("x"), "commands": [everywhere("ls")]}
    return {
        **finding,
        **texts,
        **fixed,
        "place": location,
        "remedy": remedy,
        "refs": [everywhere("x")],
    }


def _logs(files: Files) -> Iterator[Job]:
    shapes = cycle(FORMATS)
    data = seeds.log()
    broken = [(WHOLE, data), *by_hand()]
    broken += [("bytes", content) for content in as_bytes(data, 60, "diagnose")]
    for name, text in broken:
        shape = next(shapes)
        file = files.put("train.log", text)
        yield Job(f"diagnose {name}", ("diagnose", file, "--format", shape), shape)
    for ending in ("gz", "xz", "bz2", "zst"):
        for text in as_bytes(data, 3, ending):
            yield Job(f"diagnose {ending}", ("diagnose", files.put(f"a.log.{ending}", text)))


def _launches(files: Files) -> Iterator[Job]:
    shapes = cycle(FORMATS)
    pod = yaml.safe_dump(seeds.POD).encode()
    for name, data in (
        ("launch.sh", seeds.SCRIPT.encode()),
        ("pod.yaml", pod),
        ("train.py", seeds.ENTRY.encode()),
    ):
        broken = [(WHOLE, data), *by_hand()]
        broken += [("bytes", content) for content in as_bytes(data, 20, name)]
        if name == "pod.yaml":
            broken += [("tree", content) for content in as_tree(seeds.POD, as_yaml, 25, name)]
        for what, text in broken:
            shape = next(shapes)
            file = files.put(name, text)
            yield Job(f"lint {name} {what}", ("lint", file, "--format", shape), shape)


def _models(files: Files) -> Iterator[Job]:
    shapes = cycle(("text", "json", "html"))
    broken = [
        (WHOLE, as_json(seeds.MODEL)),
        *by_hand(),
        *(("tree", content) for content in as_tree(seeds.MODEL, as_json, 30, "plan")),
        *(("bytes", content) for content in as_bytes(as_json(seeds.MODEL), 10, "plan")),
    ]
    for name, text in broken:
        shape = next(shapes)
        file = files.put("config.json", text)
        yield Job(
            f"plan {name}", ("plan", "--model", file, "--npus", "8", "--format", shape), shape
        )


def _locks(files: Files) -> Iterator[Job]:
    seed = seeds.lock(files.new(locks.FILE).parent)
    data = as_yaml(seed)
    prefix = str(files.folder / "prefix")
    broken = [
        (WHOLE, data),
        *by_hand(),
        *(("tree", content) for content in as_tree(seed, as_yaml, 10, "lock")),
        *(("bytes", content) for content in as_bytes(data, 4, "lock")),
    ]  # few: setup asks the interpreter first
    for number, (name, text) in enumerate(broken):
        file = files.put(locks.FILE, text)
        plan = ("--locked", "--lock", file, "--prefix", prefix, "--dry-run", "--yes")
        yield Job(f"setup --locked {name}", ("setup", *plan))
        if number % 9 == 0:
            folder = Path(file).parent
            own = name == WHOLE or number % 2
            (folder / "SHA256SUMS").write_bytes(seeds.sums(folder) if own else text)
            bundle = ("--offline", "--from", str(folder), "--prefix", prefix, "--dry-run", "--yes")
            yield Job(f"setup --from {name}", ("setup", *bundle))


def _machines(files: Files) -> Iterator[Job]:
    shapes = cycle(FORMATS)
    healthy = files.new("machine.yaml").parent / "machine"
    seed = seeds.machine(healthy)
    broken = [
        (WHOLE, as_yaml(seed)),
        *by_hand(),
        *(("tree", content) for content in as_tree(seed, as_yaml, 20, "replay")),
        *(("bytes", content) for content in as_bytes(as_yaml(seed), 8, "replay")),
    ]
    for name, text in broken:
        shape = next(shapes)
        folder = str(Path(files.put("machine.yaml", text)).parent)
        arguments = ("check", "-l", "0", "-q", "--replay", folder, "--format", shape)
        yield Job(f"check --replay {name}", arguments, shape)
    lock = seeds.lock(files.new(locks.FILE).parent)
    quick = ("check", "-l", "0", "-q", "--replay", str(healthy))
    for name, text in (
        (WHOLE, as_yaml(lock)),
        *by_hand(),
        *(("tree", content) for content in as_tree(lock, as_yaml, 40, "--lock")),
    ):
        yield Job(f"check --lock {name}", (*quick, "--lock", files.put(locks.FILE, text)))


def _rows(files: Files) -> Iterator[Job]:
    """A site's matrix rows and settings."""
    log = files.put("train.log", b"own error 7\nRuntimeError: x\n")
    shown = {**seeds.FAILURE, "title": everywhere(""), "cause": everywhere("c")}
    for name, text in (
        (WHOLE, as_yaml(seeds.FAILURES)),
        *by_hand(),
        *(("tree", content) for content in as_tree(seeds.FAILURES, as_yaml, 25, "rows")),
        ("hostile", as_yaml({"schema": 1, "failures": [everywhere(seeds.FAILURE)]})),
        ("shown", as_yaml({"schema": 1, "failures": [shown]})),
    ):
        arguments = ("diagnose", log, "--matrix", _overlay(files, "failures/own.yaml", text))
        yield Job(f"diagnose --matrix {name}", arguments)
    shown = {**seeds.STACK, "title": everywhere("t")}
    for name, text in (
        (WHOLE, as_yaml(seeds.STACK)),
        *by_hand(),
        *(("tree", content) for content in as_tree(seeds.STACK, as_yaml, 15, "stacks")),
        ("shown", as_yaml(shown)),
    ):
        folder = _overlay(files, "stacks/our-site.yaml", text)
        yield Job(f"matrix list {name}", ("matrix", "list", "--matrix", folder))
        yield Job(f"matrix lint {name}", ("matrix", "lint", "--matrix", folder))
    for name, text in (
        (WHOLE, as_yaml(seeds.SETTINGS)),
        *by_hand(),
        *(("tree", content) for content in as_tree(seeds.SETTINGS, as_yaml, 20, "config")),
    ):
        script = files.put("launch.sh", seeds.SCRIPT.encode())
        arguments = ("lint", script, "--config", files.put("ascend-doctor.yaml", text))
        yield Job(f"lint --config {name}", arguments)


def _overlay(files: Files, name: str, text: bytes) -> str:
    folder = files.new("rows")
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(text)
    return str(folder)


def write_jobs(folder: Path) -> list[Job]:
    made = list(jobs(folder))
    (folder / "jobs.json").write_text(json.dumps([job.arguments for job in made]))
    return made
