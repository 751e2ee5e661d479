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
from .options import CommandWord, ParserRefusal, ReadOption, options_refused, read_options
from .sources import Statement, names_in_text

SECONDS = 20.0
WORLD = "world_size"
ARGPARSE = "argparse"
# A framework refuses with these; another error is an end, but not a refusal.
_REFUSALS = {"AssertionError", "ValueError", "RuntimeError", "TypeError", "ArithmeticError"}
_OF_HYDRA = re.compile(r"(?:hydra|omegaconf)\.")
_TRACE = 3


def run_start(
    framework: Any, words: list[CommandWord], world: int | None, env: dict[str, str]
) -> dict[str, Any]:
    """The answer of the framework; one without "type" passed."""

    def work() -> dict[str, Any]:
        os.environ.update(env)
        with _record_parsers() as parsers, _files_that_exist(words):
            try:
                answer = framework.start(words, world)
                options = _options(framework, parsers, words)
                return {**answer, "options": [*map(vars, options.values())]}
            except ParserRefusal as refusal:
                blamed = options_refused(refusal, words)
                return _describe(refusal, blamed, file=ARGPARSE)
            except BaseException as refusal:  # noqa: BLE001 - whatever it ends with
                return _explain(refusal, framework, _options(framework, parsers, words))

    lost = {"type": "Lost", "text": "the start ended without an answer", "failed": True}
    return in_fork(work, SECONDS) or {**lost, "options": [], "related": []}


def key_of(answer: dict[str, Any]) -> str:
    """Equal for answers that say the same."""
    if answer.get("file") == ARGPARSE:
        return str(answer["text"])
    return json.dumps([answer.get(name) for name in ("type", "file", "line", "trace")])


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
    framework: Any, parsers: list[argparse.ArgumentParser], words: list[CommandWord]
) -> dict[str, ReadOption]:
    if hasattr(framework, "options"):
        own: dict[str, ReadOption] = framework.options(words)
        return own
    return read_options(words, _largest(parsers))


def _explain(
    refusal: BaseException, framework: Any, options: dict[str, ReadOption]
) -> dict[str, Any]:
    frames = [
        frame
        for frame in traceback.extract_tb(refusal.__traceback__)
        if any(folder in frame.filename for folder in framework.folders)
    ]
    names = names_in_text(f"{refusal} {getattr(refusal, 'override', '')}", options)
    related: list[str] = []
    for frame in reversed(frames):
        statement = Statement(frame.filename, frame.lineno or 0).names()
        blamed = [name for name in statement if name in options or name == WORLD]
        related += statement
        names += [name for name in blamed if name not in names]
        if blamed:
            break
    world = ReadOption(WORLD, WORLD, [], [])
    answer = _describe(refusal, [options.get(name, world) for name in names], related)
    kind = type(refusal)
    known = not isinstance(refusal, OSError) and (
        kind is Exception
        or any(
            each.__name__ in _REFUSALS or _OF_HYDRA.match(each.__module__) for each in kind.__mro__
        )
    )
    answer["failed"] = not (known and frames)
    if frames:
        last = frames[-1]
        answer["file"], answer["line"] = last.filename, last.lineno
        answer["code"] = Statement(last.filename, last.lineno or 0).code
    answer["trace"] = [[frame.filename, frame.lineno] for frame in frames[-_TRACE:]]
    return answer


def _describe(
    refusal: BaseException,
    options: list[ReadOption],
    related: list[str] | None = None,
    file: str = "",
) -> dict[str, Any]:
    return {
        "type": type(refusal).__name__,
        "text": str(refusal),
        "options": [*map(vars, options)],
        "related": related or [],
        "file": file,
        "line": 0,
        "code": "",
    }
