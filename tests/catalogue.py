"""What the code says to people, taken out of it, and the catalogues that translate it.

usage: python -m tests.catalogue [--missing]

Without an option it sorts ascend_doctor/locale/zh.po and docs/zh.po, drops texts that the code and
the pages no longer have, and writes README.zh.md. --missing reports each text without Chinese, its
places, and a count; the doctor shows it in English. A text is what finding constructors, exceptions
of checks, ``say``, options, commands, a few tables and the matrix have. ``{0}``, ``{1}`` stand for
what f-strings fill in.
"""

import argparse
import ast
import functools
import inspect
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import NamedTuple, get_args, get_type_hints

import click
from jinja2 import Environment, nodes

from ascend_doctor.checks import all_checks
from ascend_doctor.cli import doctor
from ascend_doctor.commands.fix import Outcome
from ascend_doctor.comparison.comparable import Group
from ascend_doctor.diagnosis.result import Unexplained
from ascend_doctor.findings import Level
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.language import read_catalogue
from ascend_doctor.matrix.catalog import Catalog as Matrix
from ascend_doctor.matrix.evidence import Standing
from ascend_doctor.matrix.models import every as all_models
from ascend_doctor.matrix.schema import Release, Stack
from ascend_doctor.render.rank_rows import RankState
from docs import paragraphs as pages
from tests.naming import nodes_of

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ascend_doctor"
LOCALE = PACKAGE / "locale"
_CODES = "matrices/error-codes.yaml"
_SLOT = re.compile(r"\{\d+\}")
_FINDINGS = frozenset({"error", "warning", "note", "unknown", "Finding", "Remedy", "Fault"})
_FIELDS = frozenset({"title", "observed", "required", "because", "remedy", "summary", "reason"})
_FIRST = frozenset({"NotApplicable", "Unknown", "NeedsRoot", "Unresolved", "say"})
# What these say may begin with an option.
_ERRORS = frozenset(
    {"UsageError", "BadParameter", "DoctorError", "DataError", "CommandError", "NoStackError"}
    | {"UndatedError"}
)
# Of these the second argument is a text.
_SECOND = frozenset(
    {"check", "start_again", "mount_again", "OSError", "PermissionError", "_reject"}
)
# What helpers of these return is part of findings.
_HELPERS: tuple[str, ...] = (
    "findings.py",
    "checks",
    "judging",
    "fleet/compared_findings.py",
    "fleet/outliers.py",
)
_HELPERS += (
    "probe_results.py",
    "diagnosis/guilt.py",
    "diagnosis/verdict.py",
    "diagnosis/attempts.py",
)
_HELPERS += ("diagnosis/peers.py", "diagnosis/plog_runs.py", "diagnosis/stall_judge.py")
_HELPERS += ("diagnosis/conclude.py", "diagnosis/waiting.py")
_HELPERS += ("fleet/merged_report.py", "machine/syntax.py")
_HELPERS += (
    "planning/launches.py",
    "planning/flags.py",
    "render/stall.py",
    "render/formats/text.py",
    "render/diagnosis.py",
    "report.py",
)
# Of these every text is for people.
_WHOLE = frozenset(
    {"report.py", "judging/subjects.py", "commands/fix.py", "commands/explain.py"}
    | {
        f"render/{name}.py"
        for name in ("formats/text", "page", "fields", "fleet_text", "diagnosis", "rank_rows")
    }
    | {
        "progress.py",
        "render/stall.py",
        "render/pairs.py",
        "commands/help_pages.py",
        "commands/plan.py",
        "commands/setup_display.py",
        "matrix/queries.py",
        "provision/conflict.py",
        "provision/solution_plan.py",
    }
    | {f"planning/{name}.py" for name in ("rules", "layout", "memory", "step_time")}
)
# Names of settings: the second of each row, and keys.
_SETTINGS = "comparison/comparable.py"
_OPERANDS = ("checks", "judging", "diagnosis/guilt.py")
# Tables whose texts are shown, by module.
_TABLES = {
    "cli.py": ("SECTIONS", "_EXAMPLES"),
    "commands/check.py": ("_NO_DEVICE",),
    "commands/matrix_upgrade.py": ("_TITLES",),
    "commands/fleet.py": ("COMMANDS",),
    "commands/paired_runs.py": ("NAMES",),
    "commands/rehearsal.py": ("_BUILD",),
    "commands/stack.py": ("COMMANDS",),
    "diagnosis/verdict.py": ("_REASONS",),
    "judging/subjects.py": ("_NAMES",),
    "machine/syntax.py": ("JSON_PROBLEMS", "SHAPE_PROBLEMS", "YAML_PROBLEMS"),
    "planning/memory.py": ("MEMORY_PARTS",),
    "provision/cann_env.py": ("_WHY",),
    "provision/stack_env.py": ("_WHY",),
    "planning/layout.py": ("TITLES",),
    "render/fleet_grid.py": ("VERDICTS",),
    "render/formats/html.py": ("_ENDED",),
    "progress.py": ("NOUNS",),
    "report.py": ("LEVELS",),
}
# Of probes whose cases a report lists: their tables, and the functions that give names.
_NAMED = {
    "probes/_fused.py": ("kernels",),
    "probes/_layouts.py": ("name",),
    "probes/bool_index.py": ("CASES",),
    "probes/flash_attention.py": ("CASES", "MASKS"),
    "probes/fused_ops.py": ("CASES",),
    "probes/fused_softmax.py": ("CASES",),
    "probes/triton_kernel.py": ("CASES",),
}
_NAME = re.compile(r"(?=.{4})[A-Za-z][A-Za-z\d', ]+")
_COUNT = re.compile(r"\{0\} (?:of \{1\} )?[a-z]+[a-z ]*")
_COMMAND = re.compile(
    r"-(?!l \{0\} also checks|v shows)|[$|\"]|/(?!\S+ (?:has|is) )|export [A-Z]|for \w in |"
    r"npu-smi info|ascend-doctor (?:check|setup)|megatron sft|cat <<|docker |sudo |\(\?i\)|torch/|"
    r"hiascend"
)
_NAMED_SLOT = re.compile(r"\{[a-z]")
_MOST = 16  # forms of one text
_LONGEST_HELP = 500
_FEWEST = 6  # letters that tell a text with slots from others


class Text(NamedTuple):
    """A text and its position."""

    text: str
    where: str


class _Module:
    """A module whose texts are gathered; names are followed to what is assigned to them."""

    def __init__(self, path: Path) -> None:
        self.where = path.relative_to(ROOT).as_posix()
        self.inside = path.relative_to(PACKAGE).as_posix()
        self.nodes = nodes_of(path)
        self.values: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.values.setdefault(name, []).append(value)

    def texts(self) -> Iterator[Text]:
        if self.inside in _WHOLE:
            yield from self._of_whole(self.nodes[0])
        for node in self.nodes:
            match node:
                case ast.Call(func=ast.Name(id="ShellRule"), args=arguments):
                    yield from self._of_rule(arguments)
                case ast.Call(func=ast.Name(id="_findings"), args=[_, _, because]):
                    yield from self.texts_of(because)
                case ast.Call():
                    yield from self._of_call(node)
                case ast.FunctionDef():
                    yield from self._of_function(node)
                case ast.IfExp() | ast.BoolOp() | ast.Dict() if self.inside.startswith(_OPERANDS):
                    yield from self._of_operands(node)
                case ast.Assign():
                    yield from self._of_assignment(node)
        yield from self._of_growing() if self.inside.startswith("checks") else ()
        if self.inside == _SETTINGS:
            yield from self._of_settings()

    def _of_growing(self) -> Iterator[Text]:
        """The statements of a text that is put together with ``+=``."""
        grown: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            match node:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                    grown.setdefault(name, [*self.values.get(name, ())]).append(value)
        statements = (each for values in grown.values() for each in values)
        for node, form in ((each, form) for each in statements for form in self.forms(each)):
            for statement in form.removeprefix("{}: ").split("; "):
                text = _number(statement.strip())
                if len(re.sub(r"[^A-Za-z]", "", _SLOT.sub("", text))) >= _FEWEST and _is_prose(
                    text
                ):
                    yield self._text(text, node)

    def _of_assignment(self, node: ast.Assign) -> Iterator[Text]:
        for name in (target.id for target in node.targets if isinstance(target, ast.Name)):
            if name in _TABLES.get(self.inside, ()):
                yield from self._of_table(node.value)
            elif self.inside.startswith(("checks", "judging")) and _is_text(node.value):
                yield from self.texts_of(node.value, prose=True)

    def _of_settings(self) -> Iterator[Text]:
        names: list[ast.expr | None] = []
        for node in self.nodes:
            match node:
                case ast.Yield(value=ast.Tuple(elts=[_, name, *_])):
                    names.append(name)
                case ast.Dict(keys=keys):
                    names += keys
        for node, form in ((each, form) for each in names if each for form in self.forms(each)):
            if form != "{}":
                yield self._text(_number(form), node)

    def _of_whole(self, node: ast.AST) -> Iterator[Text]:
        """Every string that is for people, and not one inside of another's f-string."""
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Subscript() | ast.Raise():
                return
            case ast.Call(func=ast.Name(id="TypeVar")):
                return
            case ast.Constant(value=str()) | ast.JoinedStr():
                yield from self.texts_of(node, prose=True)
                inner = [part for part in ast.walk(node) if isinstance(part, ast.IfExp)]
                for part in inner:
                    yield from self.texts_of(part, prose=True)
                return
        for child in ast.iter_child_nodes(node):
            yield from self._of_whole(child)

    def _of_table(self, value: ast.expr) -> Iterator[Text]:
        match value:
            case ast.Dict(keys=keys, values=values):
                for key in keys if any(isinstance(inner, ast.Dict) for inner in values) else ():
                    yield from self.texts_of(key) if key else ()
                for inner in values:
                    yield from self._of_table(inner)
            case ast.Tuple(elts=values) | ast.List(elts=values):
                for inner in values:
                    yield from self._of_table(inner)
            case _:
                yield from self.texts_of(value)

    def _of_call(self, call: ast.Call) -> Iterator[Text]:
        names = {part.id for part in ast.walk(call.func) if isinstance(part, ast.Name)}
        if isinstance(call.func, ast.Attribute):
            names = {call.func.attr}
        if names & (_FINDINGS | _FIRST | _ERRORS):
            for argument in call.args[:1]:
                yield from self.texts_of(argument, prose=not names & (_ERRORS | {"say"}))
        if names & _SECOND and len(call.args) > 1:
            yield from self.texts_of(call.args[1], prose="check" not in names)
        yield from self._of_steps(names, call.args)
        if names & {"quantity"} and len(call.args) > 1:
            for noun in self.forms(call.args[1]):
                yield from (self._text(f"{{0}} {noun}{end}", call) for end in ("", "s"))
        keywords = {word.arg: word.value for word in call.keywords}
        if names & _FINDINGS or self.inside.startswith(_HELPERS):
            for name in sorted(_FIELDS & set(keywords)):
                yield from self.texts_of(keywords[name], prose=True)

    def _of_steps(self, names: set[str], arguments: list[ast.expr]) -> Iterator[Text]:
        """What a step of ``setup`` is called and ends with, and why ``env`` changes a variable."""
        if names & {"done", "step"} and self.inside.startswith("provision"):
            for argument in arguments[:2]:
                yield from self.texts_of(argument)
        if names & {"Change"}:
            for argument in arguments[2:]:
                yield from self.texts_of(argument)

    def _of_operands(self, node: ast.IfExp | ast.BoolOp | ast.Dict) -> Iterator[Text]:
        """What fills a slot of another text: one of two, or of a table."""
        for value in ast.iter_child_nodes(node):
            if isinstance(value, ast.Constant | ast.JoinedStr):
                for text in self.texts_of(value, prose=True):
                    if not _NAMED_SLOT.search(text.text):
                        yield text

    def _of_rule(self, arguments: list[ast.expr]) -> Iterator[Text]:
        """The texts of a rule of shell scripts, whose slots have names."""
        for argument in arguments:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                fields = [name for _, name, _, _ in Formatter().parse(argument.value) if name]
                slots = {name: f"{{{number}}}" for number, name in enumerate(fields)}
                text = argument.value.format_map(slots)
                if _is_prose(text):
                    yield self._text(text, argument)

    def _of_function(self, function: ast.FunctionDef) -> Iterator[Text]:
        marks = [ast.unparse(mark) for mark in function.decorator_list]
        if self.inside.startswith(_HELPERS) and not any("check(" in mark for mark in marks):
            for node in ast.walk(function):
                if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                    yield from self.texts_of(node.value, prose=True)

    def texts_of(self, value: ast.expr, *, prose: bool = False) -> Iterator[Text]:
        """The texts of an expression; ``prose``: only those that are more than a value."""
        for form in self.forms(value):
            text = _number(form)
            letters = re.sub(r"[^A-Za-z]", "", _SLOT.sub("", text))
            fewest = _FEWEST if "{0}" in text and not _COUNT.fullmatch(text) else 2
            if len(letters) >= fewest and (not prose or _is_prose(text)):
                yield self._text(text, value)

    def _text(self, text: str, node: ast.expr) -> Text:
        return Text(text, f"{self.where}:{node.lineno}")

    def forms(  # noqa: PLR0911 - a case a kind of expression
        self, value: ast.expr, depth: int = 0
    ) -> list[str]:
        """The texts that an expression may have, "{}" where it is not known."""
        match value:
            case ast.Constant(value=str(text)):
                return [text.replace("{", "\0")]
            case ast.JoinedStr(values=parts):
                return _joined([self.forms(part, depth) for part in parts])
            case ast.FormattedValue(value=inner):
                known = self.forms(inner, depth + 1)
                return known if isinstance(inner, ast.IfExp) else ["{}"]
            case ast.IfExp(body=first, orelse=second):
                return [*self.forms(first, depth), *self.forms(second, depth)]
            case ast.BinOp(left=first, op=ast.Add(), right=second):
                return _joined([self.forms(first, depth), self.forms(second, depth)])
            case ast.BoolOp(op=ast.Or(), values=values):
                return [text for each in values for text in self.forms(each, depth)]
            case ast.Name(id=name) if depth == 0 and name in self.values:
                return [text for each in self.values[name] for text in self.forms(each, 1)]
            case ast.Call(func=ast.Name(id="say"), args=[inner, *_]):
                return self.forms(inner, depth)
        return ["{}"]


def _skips() -> Iterator[Text]:
    """Why a probe does not run."""
    for path in sorted((ROOT / "probes").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="skip"), args=[reason]):
                    reasons = _reasons(reason)
                case ast.FunctionDef(name="unable"):
                    returned = [
                        inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)
                    ]
                    reasons = [
                        form for value in returned if value for form in _reasons(value) if form
                    ]
                case _:
                    continue
            for form in reasons:
                yield Text(_number(form), f"{path.relative_to(ROOT).as_posix()}:{node.lineno}")


def _names() -> Iterator[Text]:
    """What probes call their cases, layouts, and what computes: reports list it."""
    for file, naming in _NAMED.items():
        for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys)):
                    parts: Iterable[ast.AST] = filter(None, keys)
                case ast.FunctionDef(name=name, body=[ast.Expr(), *body]):
                    parts = (part for row in body for part in ast.walk(row))
                case _:
                    continue
            for part in parts if name in naming else ():
                match part:
                    case ast.Constant(value=str(text)) if _NAME.fullmatch(text):
                        yield Text(text, file)


def _reasons(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            known = [part.value if isinstance(part, ast.Constant) else "{}" for part in parts]
            return ["".join(map(str, known))]
        case ast.IfExp(body=first, orelse=second):
            return [*_reasons(first), *_reasons(second)]
    return []


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


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


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
            inner = command.get_command(ctx, name)
            assert inner is not None
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


def texts() -> dict[str, list[str]]:
    """Every text for people, with its positions."""
    known: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for text, where in _Module(path).texts():
            known.setdefault(text, []).append(where)
    helps = _help_texts(doctor, click.Context(doctor))
    for text, where in itertools.chain(_skips(), _names(), _pages(), helps, _explanations()):
        known.setdefault(text, []).append(where)
    for where, text in matrix_texts():
        # Else a name or number by itself; what a code means is said in full.
        if where == _CODES or re.search(r"(?=.*[a-z]{2}).*[ .]", text):
            known.setdefault(text, []).append(where)
    statuses = (get_type_hints(row)["status"] for row in (Stack, Release))
    kinds = get_type_hints(Unexplained)["kind"]
    words = (get_args(kind) for kind in (Standing, Outcome, RankState, kinds, *statuses))
    members = (member.value for member in (*Level, *Group))
    for word in filter(None, itertools.chain(members, *words)):
        known.setdefault(word, []).append("ascend_doctor")
    return known


def _explanations() -> Iterator[Text]:
    """The manuals of checks and of findings in merged reports."""
    for check in all_checks():
        yield from (Text(text, _file(check.run)) for text in paragraphs(check.explain))
    for topic in TOPICS.values():
        for text in (topic.title, *paragraphs(topic.explain)):
            yield Text(text, "ascend_doctor/fleet/explain.py")


def matrix_texts() -> Iterator[tuple[str, str]]:
    """Where the matrix says something to people, and what."""
    matrix = Matrix()
    for row in matrix.failures.values():
        for text in (row.title, row.cause, row.fix, row.before, row.affected):
            yield f"matrices/failures {row.id}", text
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


def current(messages: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The messages without those whose text the code no longer has."""
    return {text: messages[text] for text in known if messages.get(text)}


def entries(texts: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """A .po entry to be filled in for each text, behind its places."""
    for text, places in sorted(texts.items()):
        where = ", ".join(sorted(set(places)))
        yield f'#: {where}\nmsgid {json.dumps(text, ensure_ascii=False)}\nmsgstr ""\n'


def moved_files() -> list[str]:
    """The files and folders of the tables above that are absent; their texts would be dropped."""
    listed = {PACKAGE / name for name in (*_HELPERS, *_WHOLE, *_OPERANDS, *_TABLES, _SETTINGS)}
    listed |= {ROOT / name for name in _NAMED}
    return sorted(path.relative_to(ROOT).as_posix() for path in listed if not path.exists())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", action="store_true")
    if moved := moved_files():
        parser.error(f"tests/catalogue.py lists files that moved: {', '.join(moved)}")
    known, messages = texts(), translations("zh")
    if parser.parse_args().missing:
        absent = {text: places for text, places in known.items() if text not in messages}
        for title, texts_ in (
            ("ascend_doctor/locale/zh.po", absent),
            ("docs/zh.po", pages.untranslated()),
        ):
            sys.stdout.write("\n".join((*entries(texts_), f"{title} lacks {len(texts_)} texts\n")))
        return
    left = current(messages, known)
    (LOCALE / "zh.po").write_text(pages.catalogue(left), "utf-8")
    sys.stdout.writelines(f"dropped: {text}\n" for text in sorted(set(messages) - set(left)))
    sys.stdout.write(f"{len(left)} of {len(known)} texts of the code have Chinese\n")
    pages.write()


if __name__ == "__main__":
    main()
