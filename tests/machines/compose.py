"""Writes the machines of this folder as recorded machines.

``machine.yaml`` here is the recording with some conveniences, so that a machine is one page:

- ``base`` names another machine; ``replace`` changes words in all its texts, then what is said
  here is put in its place, and ``null`` takes away, everything that matches where a key has ``*``;
- ``commands`` is a mapping, and ``files`` has the texts of ``root/`` by path;
- a text may be ``{sample: FILE, replace: {old: new}}`` of tests/samples;
- a key with ``{0..7}`` or ``{a,b}`` stands for several, as in a shell; ``{}`` in its texts is
  what the brace became;
- ``interpreter`` is what the examined interpreter tells, its packages by name.

A folder that a user recorded (machine.yaml and root/) is a machine as it is.
"""

import fnmatch
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ascend_doctor.collect.interpreter_script import SENTINEL
from ascend_doctor.machine.parsing import read_yaml
from tests import samples

MACHINES = Path(__file__).parent
_MERGED = ("env", "commands", "files", "nodes", "folders", "links", "values")
_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")


def names() -> list[str]:
    return sorted(path.parent.name for path in MACHINES.glob("*/machine.yaml"))


def build(name: str, folder: Path) -> Path:
    """Write a machine as a plain recording."""
    if (MACHINES / name / "root").is_dir():
        return Path(shutil.copytree(MACHINES / name, folder))
    recording, files = compose(spec(name))
    folder.mkdir(parents=True)
    for path, text in files.items():
        target = folder / "root" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (folder / "machine.yaml").write_text(yaml.safe_dump(recording, sort_keys=False), "utf-8")
    return folder


def compose(machine: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A plain recording's machine.yaml, and its files' texts by path."""
    recording = dict(machine)
    files = recording.pop("files", {})
    recording["commands"] = [
        {"name": name, **_complete(answer)} for name, answer in machine.get("commands", {}).items()
    ]
    interpreter = recording.pop("interpreter", None)
    if interpreter and "interpreter" not in machine["commands"]:
        recording["commands"].append({"name": "interpreter", "stdout": _interpreter(interpreter)})
    return recording, {path: _text(text) for path, text in files.items()}


def spec(name: str) -> dict[str, Any]:
    """The machine merged over its bases."""
    own = read_yaml(MACHINES / name / "machine.yaml")
    for key in _MERGED:
        own[key] = dict(spread(own.get(key, {})))
    base = own.pop("base", None)
    if base is None:
        return dict(own)
    return merge(_replace(spec(base), own.pop("replace", {})), own)


def merge(below: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A change is written as a machine is."""
    own = {**change, **{key: dict(spread(change.get(key) or {})) for key in _MERGED}}
    for key in _MERGED:
        gone = [name for name, value in own[key].items() if value is None]
        inherited = {
            name: value
            for name, value in below[key].items()
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in gone)
        }
        own[key] = {
            **inherited,
            **{name: value for name, value in own[key].items() if value is not None},
        }
    if "interpreter" in below:
        own["interpreter"] = _packages(below["interpreter"], own.get("interpreter", {}))
    return {**below, **own}


def _replace(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {_replace(key, words): _replace(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace(inner, words) for inner in value]
    for old, new in words.items() if isinstance(value, str) else ():
        value = value.replace(old, new)
    return value


def _packages(below: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Changed fields of the interpreter; packages change one by one."""
    both = {**below, **own}
    for key in ("packages", "importable"):
        mixed = {**below.get(key, {}), **own.get(key, {})}
        both[key] = {name: inner for name, inner in mixed.items() if inner is not None}
    return both


def spread(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        match = _BRACES.search(key)
        if match is None:
            yield key, value
            continue
        low, high, listed = match.groups()
        parts = listed.split(",") if listed else map(str, range(int(low), int(high) + 1))
        for part in parts:
            expanded = key[: match.start()] + part + key[match.end() :]
            yield from spread({expanded: _fill(value, part)})


def _fill(value: Any, part: str) -> Any:
    if isinstance(value, str):
        return value.replace("{}", part)
    if isinstance(value, dict):
        return {key: _fill(inner, part) for key, inner in value.items()}
    return value


def _complete(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict) and "sample" not in answer:
        return answer
    rest = {} if isinstance(answer, str) else {**answer}
    for key in ("sample", "replace"):
        rest.pop(key, None)
    return {"stdout": _text(answer), **rest}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    text: str = samples.read(value["sample"])
    for old, new in value.get("replace", {}).items():
        assert old in text, f"{old!r} is not in {value['sample']}"
        text = text.replace(old, new)
    return text


def _interpreter(interpreter: Mapping[str, Any]) -> str:
    """``packages``: versions, or fields, by name."""
    answer = {key: value for key, value in interpreter.items() if key not in ("site", "packages")}
    packages = {
        name: package if isinstance(package, dict) else {"version": package}
        for name, package in interpreter["packages"].items()
    }
    answer["distributions"] = [
        {"name": name, "location": interpreter["site"], "installer": "pip", **fields}
        for name, fields in packages.items()
    ]
    return f"\n{SENTINEL}{json.dumps(answer)}\n"
