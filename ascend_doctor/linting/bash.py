"""Shell scripts: the commands that they run, with the values that their variables have there.

What only a running shell knows (commands, input, variables from outside) is untold, with the
expression that made it so; so is a variable that differs after branches, and each one that was set
before a sourced file that cannot be read.
"""

import fnmatch
import functools
import itertools
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ascend_doctor.collect.launch import takes_value
from ascend_doctor.facts import UNTOLD
from ascend_doctor.linting.positioned_text import (
    MOST_WORDS,
    Piece,
    Value,
    Word,
    limit_length,
    spelt,
    split_value,
    text,
    untold,
    word,
    words,
)
from ascend_doctor.linting.sourcing import SourcedFile, changes_nothing, folder_of_script
from ascend_doctor.patterns import patterns_of

# Bounds for untrusted scripts: recursion, loops of calls, endless sources.
_MOST_DEPTH = 60
_MOST_CALLS = 4
_MOST_DIGITS = 9
_MOST_COMMANDS = 2000
_MOST_SOURCES = 8
_MOST_SHOWN = 60
_PATTERNS = patterns_of(__file__)
_SUM, _EXPORTS_ALL, _SLICE, _OUTPUT, _REFERENCE, _CHANGED, _LINE_END, _EXPANDED = _PATTERNS[:8]
_WHOLE_ARRAY, _OPTION, _ARGUMENTS, _OF_OPTIONS, _STARTS = _PATTERNS[8:]
_BEYOND = re.compile(rb"[\xf0-\xff][\x80-\xbf]{3}")
_NPU = frozenset({"npu", "ascend"})
_OTHER_DEVICES = frozenset({"gpu", "cuda", "nvidia", "rocm"})


class ShellCommand(msgspec.Struct, frozen=True):
    """``exported`` are the variables of a command, with their places.

    ``own`` are assigned, and neither exported nor used. ``open``: it may have unseen words.
    ``sourced`` are earlier files of unknown effect; ``used`` the names that the script reads.
    ``outer`` is the command that starts its shell, as `srun bash -c TEXT`. ``folder`` is where it
    runs, from where the script was started; "." is the script's own.
    """

    words: tuple[Word, ...]
    exported: dict[str, Word]
    own: dict[str, Word]
    open: bool
    sourced: tuple[Piece, ...] = ()
    used: frozenset[str] = frozenset()
    outer: tuple[Word, ...] = ()
    folder: str = ""


class _State(msgspec.Struct):
    values: dict[str, Value] = msgspec.field(default_factory=dict)
    arrays: dict[str, tuple[Word, ...]] = msgspec.field(default_factory=dict)
    exported: set[str] = msgspec.field(default_factory=set)
    sourced: tuple[Piece, ...] = ()
    exports_all: bool = False
    folder: str = ""

    def copy(self) -> "_State":
        return msgspec.structs.replace(
            self, values=dict(self.values), arrays=dict(self.arrays), exported=set(self.exported)
        )

    def forget(self, cause: Piece) -> None:
        """The state after an unreadable file was sourced."""
        self.sourced = (*self.sourced, cause)
        self.values = dict.fromkeys(self.values, (cause,))
        self.arrays = dict.fromkeys(self.arrays, (_unknown(cause),))

    def merge(self, others: "list[_State]") -> None:
        """The state after one of several branches."""
        for name in set().union(*(other.values for other in others)):
            several = [other.values.get(name) for other in others]
            self.values[name] = _merge_values(name, several)
        for name in set().union(*(other.arrays for other in others)):
            # Arrays never come from outside: unset is empty.
            self.arrays[name] = _merge_words(name, [other.arrays.get(name, ()) for other in others])
        self.exported |= set().union(*(other.exported for other in others))
        self.sourced = tuple(dict.fromkeys(piece for other in others for piece in other.sourced))
        self.exports_all |= any(other.exports_all for other in others)
        folders = {other.folder for other in others}
        self.folder = folders.pop() if len(folders) == 1 else UNTOLD


def _merge_values(name: str, several: Sequence[Value | None]) -> Value:
    """One value, or an unknown one; of options in a text only differing ones are unknown."""
    known = [value for value in several if value is not None]
    if len({text(value) for value in known}) == 1 and len(known) == len(several):
        return known[0]
    parts = [tuple(words(value)) for value in known]
    # A variable of options that one branch sets is empty elsewhere.
    options = [bool(part) and part[0].text.startswith("--") for part in parts]
    if not any(options) or not all(
        fine or not part for fine, part in zip(options, parts, strict=True)
    ):
        return (_differs(name, known[0]),)
    merged = _merge_words(name, [*parts, *(() for _ in range(len(several) - len(known)))])
    return tuple(piece for word in merged for piece in _pieces_of(word))


def _pieces_of(word: Word) -> Iterator[Piece]:
    yield Piece(" ", word.line, max(word.column - 1, 1), file=word.file)
    before, *rest = word.text.split(UNTOLD)
    yield Piece(before, word.line, word.column, file=word.file)
    for piece, after in zip(word.unresolved, rest, strict=False):
        yield piece
        yield Piece(after, word.line, word.column, file=word.file)


def _merge_words(name: str, several: Sequence[tuple[Word, ...]]) -> tuple[Word, ...]:
    same = 0
    while all(len(part) > same for part in several) and len({part[same] for part in several}) == 1:
        same += 1
    options: dict[str, Word] = {}
    for each in (each for part in several for each in part[same:]):
        option = _OPTION.match(each.text)
        key = option.group(1) if option else ""
        if not key and (each.many and UNTOLD in each.text):
            key = each.text
        if key and key not in options:
            cause = (_differs(name, [each]),)
            content = key if UNTOLD in key else f"{key}={UNTOLD}"
            options[key] = Word(
                content, each.line, each.column, cause, each.file, many=key == UNTOLD
            )
    common = several[0][:same]
    if not options and any(len(part) > same for part in several):
        rest = next(part[same:] for part in several if len(part) > same)
        cause = (_differs(name, rest),)
        options[""] = _unknown(*cause)
    return (*common, *options.values())


def _cause(each: Word, source: str) -> Piece:
    return Piece(UNTOLD, each.line, each.column, source[:_MOST_SHOWN], each.file)


def _unknown(cause: Piece) -> Word:
    """The words that only the running shell knows, for this cause."""
    return Word(UNTOLD, cause.line, cause.column, (cause,), cause.file, many=True)


def _differs(name: str, parts: Sequence[Piece | Word]) -> Piece:
    first = parts[0] if parts else Piece("", 1, 1)
    return Piece(UNTOLD, first.line, first.column, f"${name}, set in one branch only", first.file)


def commands(
    source: bytes,
    follow: Callable[[str], SourcedFile | None] = lambda _: None,
    values: Mapping[str, Value] | None = None,
) -> tuple[ShellCommand, ...]:
    """A script's commands in order; never raises. ``follow`` gives a sourced file or None.

    ``values`` are those of variables that a scheduler sets.
    """
    walker = _Walker(SourcedFile("", source), follow, values or {})
    walker.walk()
    return tuple(walker.shell_commands)


@functools.cache
def _language() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


@functools.lru_cache(maxsize=4)
def decode(node: Any) -> str:
    return bytes(node.text or b"").decode("utf-8", "replace")


def syntax_tree(source: bytes) -> Any:
    import tree_sitter

    # tree-sitter-bash 0.25.1 reads beyond its memory after non-BMP characters; places stay.
    source = _BEYOND.sub(b"____", source)
    # A reused parser keeps the scanner's memory of earlier text.
    return tree_sitter.Parser(_language()).parse(source).root_node


class _Walker:
    def __init__(
        self,
        source: SourcedFile,
        follow: Callable[[str], SourcedFile | None],
        values: Mapping[str, Value],
    ) -> None:
        self.shell_commands: list[ShellCommand] = []
        self._source = source
        self._follow = follow
        lines = source.content.split(b"\n")
        self._wide = {row: line for row, line in enumerate(lines) if not line.isascii()}
        self._state = _State(dict(values))
        self._outer: tuple[Word, ...] = ()
        self._functions: dict[str, Any] = {}
        # Of the functions being called; None where shift moves them.
        self._arguments: list[list[Word] | None] = []
        self._depth = 0
        self._used = frozenset(
            name.decode("ascii")
            for name in re.findall(rb"\$\{?([A-Za-z_][A-Za-z0-9_]*)", source.content)
        )
        self._handlers: Mapping[str, Callable[[Any, int], None]] = {
            "variable_assignment": self._assign_node,
            "declaration_command": lambda node, _: self._declare(node),
            "unset_command": lambda node, _: self._unset(node),
            "command": self._command,
            "list": self._run_list,
            "if_statement": self._if,
            "case_statement": self._case,
            "while_statement": self._loop,
            "for_statement": self._loop,
            "c_style_for_statement": self._loop,
            "function_definition": lambda node, _: self._define(node),
            "subshell": self._subshell,
            "redirected_statement": self._heredoc,
            "heredoc_body": lambda *_: None,
            "comment": lambda *_: None,
        }

    def walk(self) -> None:
        self.run(syntax_tree(self._source.content), 0)

    def _enter(self, source: SourcedFile) -> None:
        inner = _Walker(source, self._follow, {})
        inner._outer = self._outer
        inner.shell_commands, inner._functions = self.shell_commands, self._functions
        inner._state, inner._depth = self._state, self._depth + 1
        inner._used |= self._used
        inner.walk()
        self._state = inner._state

    def run(self, node: Any, depth: int) -> None:
        if depth > _MOST_DEPTH or len(self.shell_commands) >= _MOST_COMMANDS:
            return
        if (node.text or b"").startswith(b"(("):
            self._calculate_into(node)
            return
        handler = self._handlers.get(node.type)
        if handler is not None:
            handler(node, depth)
            return
        for child in node.named_children:
            self.run(child, depth + 1)

    def _assign_node(self, node: Any, _: int) -> None:
        self._assign(node)

    def _assign(self, node: Any) -> str:
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None or name_node.type != "variable_name":
            return ""
        name = decode(name_node)
        more = any(child.type == "+=" for child in node.children)
        if value is not None and value.type == "array":
            before = self._state.arrays.get(name, ()) if more else ()
            self._state.arrays[name] = (*before, *self._items(value))[:MOST_WORDS]
            self._state.values.pop(name, None)
            return name
        start = self._position(value if value is not None else node)
        pieces = self._value(value, 0) if value is not None else ()
        if more:
            pieces = (*self._state.values.get(name, ()), *pieces)
        self._state.arrays.pop(name, None)
        self._state.values[name] = limit_length(pieces) or (self._piece("", *start),)
        return name

    def _declare(self, node: Any) -> None:
        exports = node.children[0].type == "export" or b"-x" in (node.text or b"")
        for child in node.named_children:
            plain = child.type in {"variable_assignment", "variable_name"}
            if not plain and (
                _REFERENCE.fullmatch(decode(child)) or UNTOLD in text(self._value(child, 0))
            ):
                # `export "$1"`: any variable may be set; `declare -n`: by another name.
                self._state.forget(self._open(node)[0])
            name = ""
            if child.type == "variable_assignment":
                name = self._assign(child)
            elif child.type == "variable_name":
                name = decode(child)
            if exports and name:
                self._state.exported.add(name)

    def _calculate_into(self, node: Any) -> None:
        """`((NAME += 1))` and `let`: the names that it sets become unknown."""
        for match in _CHANGED.finditer(decode(node)):
            self._state.values[match.group(1) or match.group(2)] = self._open(node)

    def _unset(self, node: Any) -> None:
        for child in node.named_children:
            for table in (self._state.values, self._state.arrays):
                table.pop(decode(child), None)

    def _branches(self, bodies: list[list[Any]], depth: int, *, exhaustive: bool) -> None:
        before, after = self._state, []
        for body in bodies:
            self._state = before.copy()
            for child in body:
                self.run(child, depth + 1)
            if not self._ends(body):
                after.append(self._state)
        self._state = before
        if not exhaustive or not after:
            after.append(before.copy())
        before.merge(after)

    def _ends(self, body: list[Any]) -> bool:
        commands = [child for child in body if child.type == "command"]
        return bool(commands) and decode(commands[-1]).split()[0] in {"exit", "return"}

    def _if(self, node: Any, depth: int) -> None:
        bodies: list[list[Any]] = [[]]
        holds = [self._condition(node)]
        exhaustive = False
        condition = node.child_by_field_name("condition")
        if condition is not None and condition.type not in _TESTS:
            self._step(condition, depth)
        for child in node.named_children:
            if child.type in {"elif_clause", "else_clause"}:
                bodies.append(list(child.named_children))
                holds.append(self._condition(child) if child.type == "elif_clause" else True)
                exhaustive |= child.type == "else_clause"
            elif condition is None or child.id != condition.id:
                bodies[0].append(child)
        # Without branches known not taken, and those after one that is taken.
        taken: list[list[Any]] = []
        for body, hold in zip(bodies, holds, strict=True):
            if hold is not False:
                taken.append(body)
            if hold is True:
                exhaustive = True
                break
        self._branches(taken, depth, exhaustive=exhaustive)

    def _run_list(self, node: Any, depth: int) -> None:
        self._list(node, depth)

    def _list(self, node: Any, depth: int) -> bool | None:
        """Run `a && b` or `a || b`; None if unknown: comparisons branch, commands succeed."""
        left, *_, right = node.named_children
        last = any(child.type == "||" for child in node.children)
        holds = self._step(left, depth)
        if holds is last:
            return holds
        # `cd folder && torchrun ...` is one way to go on, `cd folder || exit` is none.
        if holds is None and (last or self._tests(left)):
            self._branches([[right]], depth, exhaustive=False)
            return None
        return self._step(right, depth)

    def _step(self, node: Any, depth: int) -> bool | None:
        if depth > _MOST_DEPTH:
            return None
        if node.type == "list":
            return self._list(node, depth + 1)
        if node.type == "test_command":
            return self._holds(node)
        self.run(node, depth + 1)
        return None

    def _tests(self, node: Any) -> bool:
        if node.type == "list":
            return any(self._tests(child) for child in node.named_children)
        first = decode(node).split(maxsplit=1)[:1]
        return node.type in _TESTS or first[0] in _ASKS

    def _condition(self, node: Any) -> bool | None:
        test = node.child_by_field_name("condition")
        test = test or next((each for each in node.named_children), None)
        return None if test is None else self._holds(test)

    def _holds(self, test: Any) -> bool | None:
        if test.type != "test_command" or test.named_child_count != 1:
            return None
        comparison = test.named_children[0]
        if comparison.type == "unary_expression":
            return self._is_set(comparison)
        if comparison.type != "binary_expression":
            return None
        fields = (comparison.child_by_field_name(name) for name in ("left", "operator", "right"))
        left, operator, right = fields
        if left is None or operator is None or right is None:
            return None
        sides = [text(self._value(side, 0)) for side in (left, right)]
        if UNTOLD in sides[0] and sides[1].lower() in _NPU | _OTHER_DEVICES:
            # A question for the device: what is judged runs on NPUs.
            sides[0] = sides[1] if sides[1].lower() in _NPU else min(_NPU)
        if any(UNTOLD in side for side in sides):
            return None
        return _compare(sides[0], decode(operator), sides[1])

    def _is_set(self, node: Any) -> bool | None:
        operator, operand = (decode(node.children[0]), node.named_children[-1])
        value = text(self._value(operand, 0)) if operator in {"-z", "-n"} else UNTOLD
        return None if UNTOLD in value else (operator == "-n") == bool(value)

    def _case(self, node: Any, depth: int) -> None:
        items = [child for child in node.named_children if child.type == "case_item"]
        patterns = [set(self._patterns(item)) for item in items]
        subject = node.child_by_field_name("value")
        answer = text(self._value(subject, 0)) if subject is not None else UNTOLD
        named = {word for each in patterns for word in each if word.lower() in _NPU}
        if UNTOLD in answer and named:
            answer = min(named)  # arms for kinds of devices: what is judged runs on NPUs
        exhaustive = any("*" in each for each in patterns)
        if UNTOLD not in answer and not any(UNTOLD in each for each in patterns):
            fit = (
                item
                for item, each in zip(items, patterns, strict=True)
                if any(fnmatch.fnmatchcase(answer, pattern) for pattern in each)
            )
            items = list(itertools.islice(fit, 1))
            exhaustive = bool(items)
        self._branches([list(item.named_children) for item in items], depth, exhaustive=exhaustive)

    def _patterns(self, item: Any) -> Iterator[str]:
        for pattern in item.children_by_field_name("value"):
            plain = pattern.type in {"word", "extglob_pattern"}
            known = decode(pattern) if plain else text(self._value(pattern, 0))
            yield UNTOLD if UNTOLD in known or "$" in known else known

    def _loop(self, node: Any, depth: int) -> None:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is not None:
            self._state.values[decode(variable)] = self._open(variable)
        condition = node.child_by_field_name("condition")
        if condition is not None and node.type == "while_statement":
            self._step(condition, depth)
        if body is not None:
            self._branches([[body]], depth, exhaustive=False)

    def _subshell(self, node: Any, depth: int) -> None:
        before = self._state
        self._state = before.copy()
        for child in node.named_children:
            self.run(child, depth + 1)
        self._state = before

    def _define(self, node: Any) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._functions[decode(name)] = body

    def _command(self, node: Any, depth: int) -> None:
        own: dict[str, Word] = {}
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment" and not words:
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None and name.type == "variable_name":
                    content = self._value(value, 0) if value is not None else ()
                    spot = self._position(child)
                    own[decode(name)] = word(content, *spot)
            elif child.type == "command_name":
                words += self._words(child.named_children[0] if child.named_children else child)
            elif not child.type.endswith("redirect"):
                prior = child.prev_sibling
                parted = words and prior.end_byte == child.start_byte and decode(prior)[-1:] == "$"
                words += self._join(words.pop(), child) if parted else self._words(child)
        self._call(words[:MOST_WORDS], own, depth)

    def _join(self, before: Word, node: Any) -> list[Word]:
        """One word: the grammar parts `$A/$B/c` before B."""
        first, *others = self._value(node, 0)
        name = re.match(r"\w*", first.text)[0]  # type: ignore[index]
        rest = msgspec.structs.replace(first, text=first.text[len(name) :])
        value = (*_value_of(before), *self._variable(name, node), rest, *others)
        return [word(value, before.line, before.column)]

    def _call(self, call: list[Word], own: dict[str, Word], depth: int) -> None:
        if not call:
            return
        name = call[0].text
        if name in {"source", "."}:
            self._source_file(call[1] if len(call) > 1 else call[0])
        elif name == "set":
            self._set(call[1:])
        elif name in _READ:
            self._read_into(name, call[1:])
        elif name == "eval":
            self._eval(call[1:], own, depth)
        elif inner := _find_inner_script(call):
            before, self._state = self._state, self._state.copy()
            outer, self._outer = self._outer, (*self._outer, *call)
            self._read_again(inner, own, depth, () if name == "ssh" else self._state.exported)
            self._state, self._outer = before, outer
        elif name in self._functions and len(self._arguments) < _MOST_CALLS:
            body = self._functions[name]
            self._arguments.append(None if "shift" in decode(body) else call[1:])
            self.run(body, depth + 1)
            self._arguments.pop()
        else:
            self._add(call, own)

    def _set(self, words: list[Word]) -> None:
        """`set -a`, and `set -- WORDS`, which are the arguments from here on."""
        if [word.text for word in words[:1]] == ["--"]:
            self._arguments[-1:] = [words[1:]]
        elif any(_EXPORTS_ALL.fullmatch(word.text) for word in words):
            self._state.exports_all = True

    def _read_into(self, name: str, words: list[Word]) -> None:
        if name == "printf":
            words = words[1:2] if [each.text for each in words[:1]] == ["-v"] else []
        for each in words:
            if UNTOLD in each.text and name != "let":
                self._state.forget(_cause(each, f"{name} {spelt(each)}"))
            value = (_cause(each, f"{name} {each.text}"),)
            changed = [match.group(1) or match.group(2) for match in _CHANGED.finditer(each.text)]
            for variable in changed if name == "let" else [each.text]:
                self._state.values[variable] = value

    def _eval(self, texts: list[Word], own: dict[str, Word], depth: int) -> None:
        if any(_ANY_NAME.match(word.text) for word in texts[:1]):
            self._state.forget(_cause(texts[0], f"eval {spelt(texts[0])}"))
        self._read_again(texts, own, depth, self._state.values)

    def _read_again(
        self, texts: Sequence[Word], own: dict[str, Word], depth: int, names: Collection[str]
    ) -> None:
        """Run texts as commands; ``names`` are variables that the shell which reads them has."""
        if depth > _MOST_DEPTH:
            return
        lines: list[list[Value]] = [[]]
        for each in texts:
            for number, line in enumerate(split_value(_value_of(each), _LINE_END)):
                lines += [[]] if number else []
                # Line ends of variables are blanks there.
                lines[-1].append(tuple(self._expand(line, names)))
        for values in lines:
            split = [part for value in values for part in words(value)]
            for part in _split_commands(_join_quoted(split)):
                self._call(part, own, depth + 1)

    def _expand(self, value: Value, names: Collection[str]) -> Iterator[Piece]:
        for piece in value:
            start = 0
            for match in _EXPANDED.finditer(piece.text):
                name = match.group(1) or match.group(2)
                own = untold(piece.line, piece.column, match.group(), piece.file)
                known = self._state.values.get(name) if name else own
                if known is not None and (not name or name in names):
                    yield msgspec.structs.replace(piece, text=piece.text[start : match.start()])
                    yield from known
                    start = match.end()
            yield msgspec.structs.replace(piece, text=piece.text[start:]) if start else piece

    def _heredoc(self, node: Any, depth: int) -> None:
        """`bash <<EOF`: what a shell reads, and any other command as it is."""
        command = node.child_by_field_name("body")
        redirects = (child for child in node.named_children if child.type == "heredoc_redirect")
        bodies = (child for redirect in redirects for child in redirect.named_children)
        body = next((child for child in bodies if child.type == "heredoc_body"), None)
        first = decode(command).split()[:1] if command is not None else []
        if body is not None and first and first[0] in {*_SHELLS, "ssh"}:
            # Its lines keep their numbers.
            before = b"\n" * body.start_point[0]
            inner = SourcedFile(self._source.name, before + (body.text or b""))
            state = self._state.copy()
            self._enter(inner)
            self._state = state
            return
        for child in node.named_children:
            self.run(child, depth + 1)

    def _source_file(self, target: Word) -> None:
        name = spelt(target)
        if changes_nothing(name):
            return
        source = self._follow(target.text) if UNTOLD not in target.text else None
        if source is not None and self._depth < _MOST_SOURCES:
            self._enter(source)
            return
        self._state.forget(_cause(target, f"source {name}"))

    def _add(self, words: list[Word], own: dict[str, Word]) -> None:
        state = self._state
        if words[0].text in {"cd", "pushd", "popd"}:
            target = words[-1].text if len(words) == len(("cd", "FOLDER")) else UNTOLD
            known = target[:1] not in {"", "-", "~"}
            state.folder = os.path.join(state.folder, target if known else UNTOLD)
        fed = next((word for word in words[:_MOST_BEFORE] if word.text in _FEEDS), None)
        if fed is not None:
            words = [*words, _unknown(_cause(fed, fed.text))]
        values = {name: word(value, 1, 1) for name, value in state.values.items()}
        exported = {
            name: content
            for name, content in values.items()
            if name in state.exported or state.exports_all
        }
        inner = {
            name: content
            for name, content in values.items()
            if name not in exported and name not in own and name not in self._used
        }
        self.shell_commands.append(
            ShellCommand(
                tuple(words),
                {**exported, **own},
                inner,
                bool(option_lists(words)),
                state.sourced,
                self._used,
                self._outer,
                state.folder,
            )
        )

    def _items(self, array: Any) -> list[Word]:
        return [word for child in array.named_children for word in self._words(child)]

    def _words(self, node: Any) -> list[Word]:
        """The words that an argument becomes: several for an unquoted variable or an array."""
        if node.type == "comment":
            return []
        spread = self._spread(node)
        if spread is not None:
            return list(spread)
        if node.type in {"simple_expansion", "expansion"}:
            return list(words(self._value(node, 0)))
        if node.type == "concatenation" and not any(
            child.type in {"string", "raw_string"} for child in node.named_children
        ):
            return list(words(self._value(node, 0)))
        return [word(self._value(node, 0), *self._position(node))]

    def _spread(self, node: Any) -> Sequence[Word] | None:
        """The words of "$@", of an array, or of a command's output; None for anything else."""
        whole = decode(node)
        if _ARGUMENTS.fullmatch(whole):
            # A script is judged as it starts without arguments; a function is called with some.
            passed = self._arguments[-1] if self._arguments else []
            return [self._many(node)] if passed is None or (passed and ":" in whole) else passed
        if _SLICE.fullmatch(whole) or node.type == "command_substitution":
            self._launch_within(node)
            return [self._many(node)]
        return self._array(node)

    def _array(self, node: Any) -> tuple[Word, ...] | None:
        """The items of "${NAME[@]}"; None for anything else."""
        inner = node
        if node.type == "string" and node.named_child_count == 1:
            inner = node.named_children[0]
        if inner.type != "expansion":
            return None
        match = _WHOLE_ARRAY.fullmatch(decode(inner).lstrip(_BEFORE))
        if match is None:
            return None
        name = match.group(1)
        if name in self._state.arrays:
            return self._state.arrays[name]
        value = self._state.values.get(name, ())
        quoted = node.type == "string"
        # A text is an array of one; `mapfile NAME` makes many unknown items.
        if value and text(value) != UNTOLD and not (quoted and UNTOLD in text(value)):
            return (word(value, *self._position(node)),) if quoted else tuple(words(value))
        return (self._many(inner),)

    def _many(self, node: Any) -> Word:
        """Words that only the running shell knows."""
        return _unknown(*self._open(node))

    def _value(  # noqa: C901, PLR0911 - a kind of node each
        self, node: Any, depth: int
    ) -> Value:
        line, column = self._position(node)
        if depth > _MOST_DEPTH:
            return self._open(node)
        kind = node.type
        if kind in {"word", "number", "string_content", "variable_name"}:
            return (self._piece(_unescape(decode(node), kind), line, column),)
        if kind == "raw_string":
            return (self._piece(decode(node)[1:-1], line, column + 1),)
        if kind == "string":
            return self._string(node, depth)
        if kind in {"concatenation", "command_name"}:
            return limit_length(
                tuple(
                    piece
                    for child in node.named_children
                    for piece in self._value(child, depth + 1)
                )
            )
        if kind == "simple_expansion":
            return self._variable(decode(node).lstrip(_BEFORE)[1:], node)
        if kind == "expansion":
            array = self._array(node)
            if array is not None:  # within a text it is its items with blanks between
                return limit_length(tuple(piece for item in array for piece in _pieces_of(item)))
            return self._expansion(node, depth)
        if kind == "arithmetic_expansion":
            return self._arithmetic(node)
        if kind == "command_substitution" and folder_of_script(decode(node)):
            return (self._piece(".", line, column),)
        self._launch_within(node)
        return self._open(node)

    def _launch_within(self, node: Any) -> None:
        """A launch whose output is taken: `LOG=$(torchrun ...)`."""
        if node.type == "command_substitution" and _STARTS.search(decode(node)):
            self._subshell(node, 0)

    def _string(self, node: Any, depth: int) -> Value:
        """Between double quotes; blanks between parts have no node."""
        pieces: list[Piece] = []
        end = node.start_byte + 1
        point = (node.start_point[0], node.start_point[1] + 1)
        for child in node.named_children:
            if child.start_byte > end:
                pieces.append(self._gap(node, end, child.start_byte, point))
            # The grammar takes blanks before $ into the expansion.
            if child.type in _EXPANSIONS and not decode(child).startswith("$"):
                pieces.append(self._piece(" ", *self._position(child)))
            pieces += self._value(child, depth + 1)
            end, point = child.end_byte, child.end_point
        if node.end_byte - 1 > end:
            pieces.append(self._gap(node, end, node.end_byte - 1, point))
        return limit_length(tuple(pieces))

    def _gap(self, node: Any, start: int, end: int, point: Any) -> Piece:
        content: bytes = node.text[start - node.start_byte : end - node.start_byte]
        return self._piece(content.decode("utf-8", "replace"), point[0] + 1, self._column(point))

    def _piece(self, content: str, line: int, column: int) -> Piece:
        return Piece(content, line, column, file=self._source.name)

    def _open(self, node: Any) -> Value:
        """An unknown value, and the expression for it."""
        source = " ".join(decode(node).strip('"').lstrip(_BEFORE).split())[:_MOST_SHOWN]
        # Within the text of another shell a function's body is expanded there.
        source = f"'{source}'" if self._outer else source
        return untold(*self._position(node), source, self._source.name)

    def _variable(self, name: str, node: Any) -> Value:
        if name in {"@", "*"} and not self._arguments:
            return ()
        passed = self._arguments[-1] if self._arguments else None
        if passed is not None and name.isdecimal() and 0 < int(name[:3]) <= len(passed):
            return _value_of(passed[int(name[:3]) - 1])
        if name in self._state.values:
            return self._state.values[name]
        if name in self._state.arrays:
            first = self._state.arrays[name][:1]
            return tuple(
                Piece(piece.text, piece.line, piece.column, _sources(piece), piece.file)
                for piece in first
            )
        return self._open(node)

    def _expansion(self, node: Any, depth: int) -> Value:
        """${NAME} and ${NAME:-default}; all else is unknown."""
        if folder_of_script(decode(node).lstrip(_BEFORE)):
            return (self._piece(".", *self._position(node)),)
        name_node = next(
            (
                named_child
                for named_child in node.named_children
                if named_child.type == "variable_name"
            ),
            None,
        )
        if name_node is None:
            return self._open(node)
        name = decode(name_node)
        marks = [child.type.lstrip(_BEFORE) for child in node.children if not child.is_named]
        marks = [mark for mark in marks if mark not in {"${", "}"}]
        if not marks:
            return self._variable(name, node)
        if marks[0] in {":-", "-", ":=", "="}:
            known = self._state.values.get(name)
            if known is not None and (text(known) or marks[0] in {"-", "="}):
                return known
            rest = [child for child in node.named_children if child.id != name_node.id]
            return limit_length(
                tuple(piece for word in rest for piece in self._value(word, depth + 1))
            )
        return self._open(node)

    def _arithmetic(self, node: Any) -> Value:
        spot = self._position(node)
        inner = re.sub(r"^\$\(\(|\)\)$|^\$\[|\]$", "", decode(node))

        def number(match: re.Match[str]) -> str:
            value = self._state.values.get(match.group(1) or match.group(2))
            known = text(value) if value is not None else ""
            return known if known.isdecimal() and len(known) <= _MOST_DIGITS else UNTOLD

        inner = re.sub(r"\$\{?([A-Za-z_]\w*)\}?|\b([A-Za-z_]\w*)\b", number, inner[:200])
        result = _calculate(inner)
        return self._open(node) if result is None else (self._piece(str(result), *spot),)

    def _position(self, node: Any) -> tuple[int, int]:
        row = node.start_point[0]
        if node.type in _EXPANSIONS:
            *lines, last = decode(node).partition("$")[0].split("\n")
            if lines:
                return row + len(lines) + 1, len(last) + 1
        return row + 1, self._column(node.start_point)

    def _column(self, point: Any) -> int:
        """tree-sitter counts bytes, people count characters."""
        row, width = point
        wide = self._wide.get(row)
        return 1 + (width if wide is None else len(wide[:width].decode("utf-8", "replace")))


def _join_quoted(split: Iterable[Word]) -> Iterator[Word]:
    quote, whole = "", None
    for each in split:
        letters: list[str] = []
        for letter in each.text:
            if letter == quote:
                quote = ""
            elif not quote and letter in "\"'":
                quote = letter
            else:
                letters.append(letter)
        content = "".join(letters)
        if whole is not None:
            content = f"{whole.text} {content}"
        whole = msgspec.structs.replace(whole or each, text=content)
        if not quote:
            yield whole
            whole = None
    if whole is not None:
        yield whole


def _split_commands(words: Iterable[Word]) -> Iterator[list[Word]]:
    part: list[Word] = []
    for each in words:
        if each.text in _BETWEEN:
            yield part
            part = []
        elif "$" in each.text:
            # Quotes: it is expanded by the shell that reads the text, not by the script's.
            source = each.text if "\\" in each.text else f"'{each.text}'"
            part.append(_unknown(_cause(each, source)))
        else:
            part.append(each)
    yield part


_BETWEEN = frozenset({"&&", "||", ";", "|", "&"})


def _value_of(word: Word) -> Value:
    return word.parts or tuple(_pieces_of(word))[1:]


def _sources(word: Word) -> str:
    return word.unresolved[0].source if word.unresolved else ""


def option_lists(words: Sequence[Word]) -> list[Word]:
    """The words that may stand for several options, or for none."""
    return [
        word
        for before, word in zip(("", *(each.text for each in words)), words, strict=False)
        if word.many and _holds_options(word, before)
    ]


def _holds_options(word: Word, before: str) -> bool:
    """Whether a word after another may be several options: `$ARGS`, `--bf16$ARGS`."""
    if word.text != UNTOLD:
        return word.text.startswith("--") and UNTOLD in word.text.partition("=")[0]
    sources = _sources(word)
    of_options = _OF_OPTIONS.search(sources) is not None and not _OUTPUT.match(sources)
    return of_options or not takes_value(before)


def _find_inner_script(call: Sequence[Word]) -> Sequence[Word]:
    """The script words of `bash -c TEXT` and `ssh HOST TEXT`."""
    for position, (before, option) in enumerate(itertools.pairwise(call[:_MOST_BEFORE])):
        shell = before.text.rpartition("/")[2] in _SHELLS
        if shell and re.fullmatch(r"-[a-z]*c", option.text):
            return call[position + 2 : position + 3]
        if position == 0 and before.text == "ssh":
            texts = [each for each in call[1:] if " " in each.text]
            return texts[-1:]
    return ()


_MOST_BEFORE = 40
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
# They add words that they read to a command.
_FEEDS = frozenset({"xargs", "parallel"})
# `eval "$1=$2"`, `eval $(cmd)`: eval begins with a part that only the shell knows.
_READ = frozenset({"read", "mapfile", "readarray", "getopts", "let", "printf"})
_ANY_NAME = re.compile(rf"{UNTOLD}(=|$)")
_BEFORE = " \t\r\n\\"
_EXPANSIONS = frozenset({"simple_expansion", "expansion"})


def _unescape(content: str, kind: str) -> str:
    if kind != "word":
        return content
    return re.sub(r"\\(.)", r"\1", content) if "\\" in content else content


def _compare(left: str, sign: str, right: str) -> bool | None:
    if sign in {"=", "==", "!="} and not re.search(r"[*?\[]", right):
        return (left == right) is (sign != "!=")
    if sign not in _NUMERIC or not (left.isdecimal() and right.isdecimal()):
        return None
    return _NUMERIC[sign](int(left[:_MOST_DIGITS]), int(right[:_MOST_DIGITS]))


_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-lt": operator.lt,
    "-ge": operator.ge,
    "-le": operator.le,
}
_PRODUCTS = {"*": operator.mul, "/": operator.floordiv, "%": operator.mod}


def _calculate(expression: str) -> int | None:
    if not _SUM.fullmatch(expression):
        return None
    total = 0
    for sign, first, rest in re.findall(r"([-+]?) *(\d+)((?: *[*/%] *\d+)*)", expression):
        product = int(first)
        for mark, digits in re.findall(r"([*/%]) *(\d+)", rest):
            if mark != "*" and not int(digits):
                return None
            product = _PRODUCTS[mark](product, int(digits))
        total += -product if sign == "-" else product
    return total


def launches(commands: tuple[ShellCommand, ...]) -> Iterator[ShellCommand]:
    """Commands that start a training, by their first words."""
    for command in commands:
        start = " ".join(item.text for item in command.words[:40])
        if command.words[0].text not in _STARTS_NOTHING and _STARTS.search(start):
            yield command


# They may name a launcher or its script, and run neither.
_STARTS_NOTHING = {
    *("echo", "printf", "cat", "tee", "head", "tail", "ls", "cd", "cp", "mv", "rm", "ln"),
    *("mkdir", "touch", "chmod", "find", "grep", "egrep", "fgrep", "sed", "awk", "diff"),
    *("ps", "pgrep", "pkill", "kill", "killall", "which", "type", "command", "git", "pip"),
    *("[", "[[", "test", "wget", "curl", "tar", "unzip", "vi", "vim", "trap"),
}
_TESTS = frozenset({"test_command", "negated_command"})
_ASKS = frozenset({"test", "grep", "command", "which", "type", "pgrep"})
