"""What the code says to people, taken out of it, and the catalogues that translate it.

usage: python -m tests.catalogue [--missing]

Without an option it sorts ascend_doctor/locale/zh.po and docs/zh.po, and drops texts that the code
and the pages no longer have. --missing reports each text without Chinese, its
places, and a count; the doctor shows it in English. A text is what findings, exceptions, ``say``,
options, commands and the matrix have, and each other one that has Chinese. ``{0}``, ``{1}`` stand
for what f-strings fill in.
"""

import argparse
import ast
import errno
import functools
import inspect
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import click
import msgspec
import yaml
from jinja2 import Environment, nodes

from ascend_doctor.checks import all_checks
from ascend_doctor.cli import doctor
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.language import read_catalogue
from ascend_doctor.matrix.catalog import Catalog as Matrix
from ascend_doctor.matrix.check_texts import read_texts
from ascend_doctor.matrix.models import every as all_models
from ascend_doctor.simulator import FAULTS
from docs import paragraphs as pages
from tests.naming import nodes_of
from tests.present import present

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ascend_doctor"
LOCALE = PACKAGE / "locale"
_CODES = "matrices/error-codes.yaml"
_SLOT = re.compile(r"\{\d+\}")
# Calls whose arguments are texts: the first one, the second one, or those of these names.
_FIRST = frozenset(
    {"error", "warning", "note", "unknown", "NotApplicable", "Unknown", "NeedsRoot", "Unresolved"}
    | {"Fault", "notice", "say"}
)
# What these say may begin with an option.
_ERRORS = frozenset(
    {"UsageError", "BadParameter", "DoctorError", "DataError", "CommandError", "NoStackError"}
    | {"UndatedError"}
)
_SECOND = frozenset({"check", "start_again", "mount_again", "OSError", "PermissionError"})
_FIELDS = frozenset({"title", "observed", "required", "because", "remedy", "summary", "reason"})
# What the command line makes of click's messages.
_ADAPTED = (
    *("no such command: {0}", "no such command: {0}; did you mean {1}?"),
    *("{0} is not a number.", "{0} is not a whole number."),
    "a whole number from {0} to {1}",
)
# Whose messages people read, beside those of the kernel.
_LIBRARIES = (click, json, msgspec, yaml)
_COUNT = re.compile(r"\{0\} (?:of \{1\} )?[a-z]+[a-z ]*")
_COMMAND = re.compile(
    r"-(?!l \{0\} also checks|v shows)|[$|\"]|/(?!\S+ (?:has|is) )|export [A-Z]|for \w in |"
    r"npu-smi info|ascend-doctor (?:check|setup)|megatron sft|cat <<|docker |sudo |\(\?i\)|torch/|"
    r"hiascend"
)
_MOST = 16  # forms of one text
_LONGEST_HELP = 500
_FEWEST = 6  # letters that tell a text with slots from others
_FEWEST_OF_ROW = 5  # the same for texts that are data


class Text(NamedTuple):
    """A text and its position."""

    text: str
    where: str


def _read_code(path: Path, messages: Container[str]) -> Iterator[tuple[Text, bool]]:
    """Each text that a module has, and whether people read it: translated, or said by a call."""
    nodes, where = nodes_of(path), path.relative_to(ROOT).as_posix()
    inner = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    inner |= {node.value for node in nodes if isinstance(node, ast.Expr)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    spoken = {value for call in calls for value in _spoken(call)}
    errors = {call.args[0] for call in calls if call.args and _name(call) in _ERRORS}
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values.setdefault(name, []).append(value)
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="quantity"), args=[_, noun, *_]):
                nouns = (f"{{0}} {each}{end}" for each in _forms(noun, {}) for end in ("", "s"))
                yield from ((Text(text, f"{where}:{node.lineno}"), True) for text in nouns)
            case ast.Constant() | ast.JoinedStr() | ast.BinOp() | ast.IfExp() | ast.BoolOp():
                for form in _forms(node, values) if node not in inner else ():
                    whole = _number(form)
                    is_message = node in errors or (node in spoken and _is_sentence(whole))
                    yield Text(whole, f"{where}:{node.lineno}"), is_message or whole in messages
                    for part in form.removeprefix("{}: ").split("; "):
                        text = _number(part.strip())
                        yield Text(text, f"{where}:{node.lineno}"), text in messages


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _spoken(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args[:1] if _name(call) in _FIRST else ()
    yield from call.args[1:2] if _name(call) in _SECOND else ()
    yield from (word.value for word in call.keywords if word.arg in _FIELDS)


def _is_sentence(text: str) -> bool:
    letters = re.sub(r"[^A-Za-z]", "", _SLOT.sub("", text))
    fewest = _FEWEST if "{0}" in text and not _COUNT.fullmatch(text) else 2
    return len(letters) >= fewest and _is_prose(text)


def _forms(  # noqa: PLR0911 - a case a kind of expression
    value: ast.expr, values: Mapping[str, list[ast.expr]]
) -> list[str]:
    """The texts that an expression may have, "{}" where it is not known."""
    match value:
        case ast.Constant(value=str(text)):
            return [text.replace("{", "\0")]
        case ast.JoinedStr(values=parts):
            return _joined([_forms(part, {}) for part in parts])
        case ast.FormattedValue(value=ast.IfExp() as inner):
            return _forms(inner, {})
        case ast.IfExp(body=first, orelse=second):
            return [*_forms(first, values), *_forms(second, values)]
        case ast.BinOp(left=first, op=ast.Add(), right=second):
            return _joined([_forms(first, values), _forms(second, values)])
        case ast.BoolOp(op=ast.Or(), values=operands):
            return [text for operand in operands for text in _forms(operand, values)]
        case ast.Name(id=name) if name in values:
            return [text for each in values[name] for text in _forms(each, {})]
    return ["{}"]


def _rows() -> Iterator[Text]:
    """The texts of checks as data, their values numbered as those of the code's texts."""
    for path in sorted((ROOT / "matrices" / "checks").glob("*.yaml")):
        where, rows = path.relative_to(ROOT).as_posix(), read_texts(path.stem)
        yield from (Text(check.title, where) for check in rows.checks.values())
        for row in (row for check in rows.checks.values() for row in check.by_name.values()):
            for text in (row.title, row.observed, row.required, row.because, row.remedy):
                parts = [(before, field) for before, field, _, _ in Formatter().parse(text)]
                shown = _number("".join(f"{a}{'' if b is None else '{}'}" for a, b in parts))
                letters = re.findall("[A-Za-z]", _SLOT.sub("", shown))
                if len(letters) >= _FEWEST_OF_ROW and _is_prose(shown):
                    yield Text(shown, where)


def _pages() -> Iterator[Text]:
    for path in sorted((PACKAGE / "render" / "pages").glob("*.html")):
        for text in _page_texts(path.read_text("utf-8")):
            yield Text(text, path.relative_to(ROOT).as_posix())


def _page_texts(source: str) -> Iterator[str]:
    """What a template of a page says: ``say``, ``form`` and ``quantity``."""
    tree = Environment(autoescape=True).parse(source)
    for call in tree.find_all(nodes.Call):
        match call:
            case nodes.Call(node=nodes.Name(name="say" | "form"), args=[argument]):
                yield from (_number(text) for text in _page_forms(argument) if text != "{}")
            case nodes.Call(node=nodes.Name(name="quantity"), args=[_, nodes.Const(value=noun)]):
                yield from (f"{{0}} {noun}{end}" for end in ("", "s"))


def _page_forms(node: nodes.Node) -> list[str]:
    match node:
        case nodes.Const(value=str(text)):
            return [text.replace("{", "\0")]
        case nodes.Concat(nodes=parts):
            return _joined([_page_forms(part) for part in parts])
        case nodes.CondExpr(expr1=first, expr2=second):
            return [*_page_forms(first), *(_page_forms(second) if second else ())]
        case nodes.Getitem(node=nodes.Dict(items=items)):
            return [text for item in items for text in _page_forms(item.value)]
    return ["{}"]


def _joined(parts: list[list[str]]) -> list[str]:
    while len(list(itertools.product(*parts))) > _MOST:
        widest = max(range(len(parts)), key=lambda at: len(parts[at]))
        parts[widest] = ["{}"]
    return ["".join(choice) for choice in itertools.product(*parts)]


def _number(text: str) -> str:
    count = itertools.count()
    return re.sub(r"\{\}", lambda _: f"{{{next(count)}}}", text).replace("\0", "{")


def _is_prose(text: str) -> bool:
    bare = _SLOT.sub("xx", text)
    words = (
        re.search(r"[A-Za-z]{2,},? [A-Za-z(`]", bare)
        or _COUNT.fullmatch(text)
        or re.search(r"^[A-Z][a-z]+$", bare)
    )
    return bool(words) and not _COMMAND.match(text)


def paragraphs(docstring: str) -> list[str]:
    """The paragraphs of a help text, each on one line, but for blocks that are kept as they are."""
    return [
        text.removeprefix("\b\n") if text.startswith("\b") else " ".join(text.split())
        for text in inspect.cleandoc(docstring).split("\n\n")
    ]


def _help_texts(command: click.Command, ctx: click.Context) -> Iterator[Text]:
    """What a command, its options and its commands say of themselves."""
    where = _file(command.callback) if command.callback else "ascend_doctor/commands"
    yield from (Text(text, where) for text in (*paragraphs(command.help or ""), *_options(command)))
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = present(command.get_command(ctx, name))
            yield Text(inner.get_short_help_str(limit=_LONGEST_HELP), where)
            yield from _help_texts(inner, ctx)


def _file(function: Callable[..., object]) -> str:
    """The file of a function, from the root of the repository."""
    return function.__module__.replace(".", "/") + ".py"


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            words, *notes = parameter.help.split("  [")
            yield words
            yield from (
                value
                for note in notes
                if re.search("[a-z] [a-z]", value := note.rstrip("]").removeprefix("default: "))
            )


def code_texts(messages: Container[str]) -> Iterator[tuple[Text, bool]]:
    """What the code of the package and of probes has, and whether people read it."""
    for path in sorted((*PACKAGE.rglob("*.py"), *(ROOT / "probes").glob("*.py"))):
        yield from _read_code(path, messages)


def texts() -> dict[str, list[str]]:
    """Every text for people, with its positions."""
    known: dict[str, list[str]] = {}
    code = (text for text, shown in code_texts(translations("zh")) if shown)
    helps = _help_texts(doctor, click.Context(doctor))
    for text, where in itertools.chain(code, _pages(), helps, _explanations(), _rows()):
        known.setdefault(text, []).append(where)
    for where, text in matrix_texts():
        # Else a name or number by itself; what a code means is said in full.
        if where == _CODES or re.search(r"(?=.*[a-z]{2}).*[ .]", text):
            known.setdefault(text, []).append(where)
    return known


def _explanations() -> Iterator[Text]:
    """The manuals of checks and of findings in merged reports."""
    for check in all_checks():
        yield from (Text(text, _file(check.run)) for text in paragraphs(check.explain))
    for topic in TOPICS.values():
        for text in (topic.title, *paragraphs(topic.explain)):
            yield Text(text, "matrices/checks/merged-reports.yaml")


def matrix_texts() -> Iterator[tuple[str, str]]:
    """Where the matrix says something to people, and what."""
    matrix = Matrix()
    for row in matrix.failures.values():
        for text in (row.title, row.cause, row.fix, row.before, row.affected):
            yield f"matrices/failures {row.id}", text
    yield "matrices/error-guides.yaml", "CANN reports {0}: {1}"
    for guide in matrix.error_guides.values():
        yield from (("matrices/error-guides.yaml", text) for text in (guide.cause, guide.remedy))
    for hazard in matrix.hazards.hazards:
        yield from (("matrices/hazards.yaml", text) for text in (hazard.what, hazard.want))
    yield from (("matrices/launch-rules.yaml", text) for text in _rule_texts(matrix))
    for variable in matrix.variables.variables:
        hurts = variable.hurts.values()
        texts_ = (variable.meaning, variable.valid, variable.default, variable.recommend)
        for text in (*texts_, *variable.mistakes, *hurts):
            yield f"matrices/environment.yaml {variable.name}", text
    for miss in matrix.variables.near_misses:
        yield "matrices/environment.yaml", miss.note
    for component in matrix.components:
        needs = [need for row in component.releases for need in (*row.requires, *row.conflicts)]
        reasons = [need.because for need in needs]
        reasons += [index.because for index in component.obtain.indexes]
        notes = [component.note, *(row.note for row in component.releases)]
        notes += [row.note for row in component.refs]
        behaviours = [row.text for row in component.behaviours if f'"{row.id}"' in _code()]
        for text in (component.title, *reasons, *notes, *behaviours):
            yield f"matrices/components/{component.id}.yaml", text
    yield from (("ascend_doctor/simulator/faults.yaml", fault.title) for fault in FAULTS)
    yield from (("matrices/stacks", note) for stack in matrix.stacks for note in stack.notes)
    yield from ((_CODES, text) for text in meanings(matrix))
    yield from (("matrices/models", model.note) for model in all_models(matrix) if model.note)


def _rule_texts(matrix: Matrix) -> Iterator[str]:
    """The texts of rules, their values numbered as those of the code's texts."""
    for rule in itertools.chain(*(group.rules for group in matrix.rules.groups)):
        for text in (rule.title, rule.required, rule.because, rule.remedy):
            shown = text
            for number, value in enumerate(dict.fromkeys(re.findall(r"\{[^{}]+\}", text))):
                shown = shown.replace(value, f"{{{number}}}")
            yield shown


def meanings(matrix: Matrix) -> list[str]:
    """What `explain` says that the codes of CANN, its runtime and HCCL mean."""
    codes = matrix.error_codes
    return [*codes.reported.values(), *codes.acl.values(), *codes.hccl.values()]


@functools.cache
def _code() -> str:
    """The checks, which tell of a behaviour that they name."""
    return "".join(path.read_text("utf-8") for path in sorted((PACKAGE / "checks").rglob("*.py")))


def translations(language: str) -> dict[str, str]:
    """The texts of the code that a catalogue translates."""
    messages = read_catalogue((LOCALE / f"{language}.po").read_text("utf-8"))
    return {text: translation for text, translation in messages if translation}


@functools.cache
def _library_texts() -> bytes:
    folders = [Path(str(library.__file__)).parent for library in _LIBRARIES]
    files = (path for folder in folders for path in sorted(folder.rglob("*.*[yo]")))
    errors = (os.strerror(code).encode() for code in errno.errorcode)
    return b"\n".join((*(path.read_bytes() for path in files), *errors))


def is_of_library(text: str) -> bool:
    """Whether each part of a text between slots is in a library, and one is more than a word."""
    parts = [part.strip(" .,:;()'\"`\n-") for part in re.split(r"\{\d+\}|\\", text)]
    known = [part for part in parts if len(part) >= _FEWEST]
    return bool(known) and all(part.encode() in _library_texts() for part in known)


def current(messages: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The messages without those whose text the code no longer has."""
    return {text: messages[text] for text in known if messages.get(text)}


def entries(texts: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """A .po entry to be filled in for each text, behind its places."""
    for text, places in sorted(texts.items()):
        where = ", ".join(sorted(set(places)))
        yield f'#: {where}\nmsgid {json.dumps(text, ensure_ascii=False)}\nmsgstr ""\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", action="store_true")
    known, messages = texts(), translations("zh")
    if parser.parse_args().missing:
        absent = {text: places for text, places in known.items() if text not in messages}
        for title, texts_ in (
            ("ascend_doctor/locale/zh.po", absent),
            ("docs/zh.po", pages.untranslated()),
        ):
            sys.stdout.write("\n".join((*entries(texts_), f"{title} lacks {len(texts_)} texts\n")))
        return
    own = {*known, *_ADAPTED, *(text for (text, _), _ in code_texts(()))}
    left = current(messages, [text for text in messages if text in own or is_of_library(text)])
    (LOCALE / "zh.po").write_text(pages.catalogue(left), "utf-8")
    sys.stdout.writelines(f"dropped: {text}\n" for text in sorted(set(messages) - set(left)))
    sys.stdout.write(f"{len(left)} texts of {len(known)} have Chinese\n")
    pages.write()


if __name__ == "__main__":
    main()
