"""One start of a framework with a command, in a fork: passed, or refused and by what."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import traceback
from typing import Any

from .confined import in_fork
from .options import (
    CommandWord,
    ParserRefusal,
    ReadOption,
    divide,
    options_refused,
    read_options,
    read_settings,
)
from .sources import Statement, names_given, names_in_text, names_near
from .stand_ins import go_on

SECONDS = 20.0
WORLD = "world_size"
ARGPARSE = "argparse"
# A framework refuses with these; another error is an end, but not a refusal.
_REFUSALS = {"AssertionError", "ValueError", "RuntimeError", "TypeError", "ArithmeticError"}
_OF_HYDRA = re.compile(r"(?:hydra|omegaconf|yaml)\.")
_TRACE = 3


def run_start(
    framework: Any, words: list[CommandWord], world: int | None, env: dict[str, str]
) -> dict[str, Any]:
    """The answer of the framework; one without "type" passed, "passed": up to a stand-in."""

    def work() -> dict[str, Any]:
        os.environ.update(env)
        with _record_parsers() as parsers, _files_that_exist(words):
            try:
                answer = framework.start(words, world)
                options = _options(framework, parsers, words)
                answer = {**answer, "options": [*map(vars, options.values())]}
            except BaseException as refusal:  # noqa: BLE001 - whatever it ends with
                return _explain(refusal, framework, parsers, words)
            try:
                go_on(framework)
            except BaseException as refusal:  # noqa: BLE001 - whatever it ends with
                refused = _explain(refusal, framework, parsers, words)
                return answer if refused["failed"] else {**refused, "passed": answer}
            return answer

    lost = {"type": "Lost", "text": "the start ended without an answer", "failed": True}
    return in_fork(work, SECONDS) or {**lost, "options": [], "related": []}


def key_of(answer: dict[str, Any]) -> str:
    """Equal for answers that say the same."""
    if answer.get("file") == ARGPARSE:
        return str(answer["text"])
    return json.dumps([answer.get(name) for name in ("type", "path", "file", "line", "trace")])


@contextlib.contextmanager
def _record_parsers() -> Any:
    parsers: list[argparse.ArgumentParser] = []
    parse = argparse.ArgumentParser.parse_known_args

    def keep(parser: Any, args: Any = None, namespace: Any = None) -> Any:
        parsers.append(parser)
        return parse(parser, args, namespace)

    argparse.ArgumentParser.parse_known_args = keep
    try:
        yield parsers
    finally:
        argparse.ArgumentParser.parse_known_args = parse


@contextlib.contextmanager
def _files_that_exist(words: list[CommandWord]) -> Any:
    """Pretend that the command's files exist: they are on another machine."""
    options = {word.text for word in words if "/" in word.text or word.text == "unknown"}
    exists = os.path.exists
    os.path.exists = lambda path: exists(path) or str(path).endswith(tuple(options) or "\0")
    try:
        yield
    finally:
        os.path.exists = exists


def parser_of(framework: Any) -> Any:
    with _record_parsers() as parsers:
        with contextlib.suppress(BaseException):
            framework.parse([])
        return _largest(parsers)


def _largest(parsers: list[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    if not parsers:
        return argparse.ArgumentParser()
    return max(parsers, key=lambda parser: len(parser._actions))


def _options(
    framework: Any, parsers: list[argparse.ArgumentParser], words: list[CommandWord], text: str = ""
) -> dict[str, ReadOption]:
    typed, settings = divide(words, overrides=hasattr(framework, "overrides"))
    return {**read_settings(settings, text), **read_options(typed, _largest(parsers))}


def _explain(
    refusal: BaseException,
    framework: Any,
    parsers: list[argparse.ArgumentParser],
    words: list[CommandWord],
) -> dict[str, Any]:
    while not _is_refusal(refusal) and refusal.__cause__ is not None:
        refusal = refusal.__cause__
    frames = _frames(refusal, framework)
    text, path, inner = str(refusal), "", frames
    if hasattr(refusal, "errors"):  # pydantic's
        first = refusal.errors()[0]
        path = ".".join(map(str, first["loc"]))
        text = f"{path}: {first['msg']}"
        inner = _frames(first.get("ctx", {}).get("error", refusal), framework)
    if by_parser := isinstance(refusal, ParserRefusal):
        frames = inner = []
    options = _options(framework, parsers, words, text)
    named = f"{text} {getattr(refusal, 'override', '')}"
    names = [path] if path in options else names_in_text(named, options)
    related: list[str] = []
    files = {frame.filename for frame in inner}
    for frame in reversed(inner):
        statement = Statement(frame.filename, frame.lineno or 0).names(text)
        blamed = [name for name in statement if name in options or name == WORLD]
        blamed = blamed or [name for name in names_given(files, statement) if name in options]
        related += statement
        names += [name for name in blamed if name not in names]
        if blamed:
            break
    world = ReadOption(WORLD, WORLD, [], [])
    blamed_options = [options.get(name, world) for name in names or names_near(text, options)]
    if isinstance(refusal, ParserRefusal):
        blamed_options = options_refused(refusal, words) or blamed_options
    last = [*frames, *inner][-1:]
    line = last[0].lineno or 0 if last else 0
    file = last[0].filename if last else ""
    code = Statement(file, line).code
    package = type(refusal).__module__.partition(".")[0]
    on_purpose = code.startswith("raise ") and not isinstance(refusal, OSError)
    known = on_purpose or _is_refusal(refusal) or f"/{package}/" in framework.folders
    return {
        "type": type(refusal).__name__,
        "text": text,
        "path": path,
        "options": [*map(vars, blamed_options)],
        "related": related,
        "failed": not by_parser and not (known and frames),
        "file": ARGPARSE if by_parser else file,
        "line": line,
        "code": code,
        "trace": [[frame.filename, frame.lineno] for frame in frames[-_TRACE:]],
    }


def _frames(refusal: BaseException, framework: Any) -> list[traceback.FrameSummary]:
    return [
        frame
        for frame in traceback.extract_tb(refusal.__traceback__)
        if any(folder in frame.filename for folder in (*framework.folders, "/stand_ins.py"))
    ]


def _is_refusal(refusal: BaseException) -> bool:
    kind = type(refusal)
    return not isinstance(refusal, OSError) and (
        kind is Exception
        or any(
            each.__name__ in _REFUSALS or _OF_HYDRA.match(each.__module__) for each in kind.__mro__
        )
    )
