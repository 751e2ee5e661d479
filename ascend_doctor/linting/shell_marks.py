"""Mistakes in shell scripts that the values of their variables give away.

shellcheck does not know that a script launches something, so it cannot tell an option from a word.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ascend_doctor.facts import ShellMark
from ascend_doctor.findings import Place
from ascend_doctor.judging.spelling import edit_distance, slip_of
from ascend_doctor.linting.bash import ShellCommand, decode, syntax_tree
from ascend_doctor.linting.positioned_text import locate
from ascend_doctor.patterns import patterns_of

# Shorter names have too many neighbours: TP, PP, EP, DP.
_LEAST = 4
_LONGEST = 200
_PATTERNS = patterns_of(__file__)
_CAPITALS, _LONG_DASH, _NAME, _BRACED, _REST, _EXPANSION, _LAUNCHES, _FILE = _PATTERNS[:8]
_OPEN_BRACE, _OPEN_TEST, _UNFILLED, _TEMPLATE, _SETTING, _OPEN_QUOTE, _QUOTED = _PATTERNS[8:15]
_OUTSIDE, _ALL_ARGUMENTS = _PATTERNS[15:]
# <path to data>, which the shell reads as two redirections. `sort <a >b` is none.
_PLACEHOLDER = re.compile(
    rb"(?<=[=:/ \t])<[A-Za-z][^<>|&;()$\"'`\n]*(?<![ \t])>(?=[\w/:,. \t\r\\]|$)", re.MULTILINE
)
_EXPORT = "export"
# Variables of every shell, never meant in small letters.
_OF_SHELL = frozenset({"PWD", "OLDPWD", "HOME", "USER", "HOSTNAME", "RANDOM"})
_TEXTS = frozenset(
    {"heredoc_body", "string", "raw_string", "ansi_c_string", "comment", "expansion"}
)
_READ = frozenset({"read", "mapfile", "readarray", "getopts", "printf"})
_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?"})


def find_placeholders(content: bytes, file: str) -> tuple[bytes, tuple[ShellMark, ...]]:
    """The script with letters for placeholders (lines and columns stay), and their marks."""
    if not _PLACEHOLDER.search(content):
        return content, ()
    root = syntax_tree(_PLACEHOLDER.sub(_fill, content))
    lines = content.split(b"\n")
    marks: list[ShellMark] = []
    for number, line in enumerate(lines):
        for match in _PLACEHOLDER.finditer(line):
            before = line[: match.start()]
            # Within quotes or a comment it is text.
            if before.count(b'"') % 2 or before.count(b"'") % 2 or b"#" in before:
                continue
            spot = (number, match.start())
            if _is_within(root.descendant_for_point_range(spot, spot), _TEXTS):
                continue
            column = len(before.decode("utf-8", "replace")) + 1
            where = Place(file=file, line=number + 1, column=column)
            text = match.group().decode("utf-8", "replace")
            marks.append(mark("placeholder", where, text))
            lines[number] = lines[number][: match.start()] + _fill(match) + line[match.end() :]
            line = lines[number]  # noqa: PLW2901 - its length is the same
    return b"\n".join(lines), tuple(marks)


def mark(rule: str, where: Place, text: str = "", near: str = "") -> ShellMark:
    """A mark at a place, with the text there and what was probably meant."""
    return ShellMark(rule=rule, text=text[:80], near=near[:80], location=where)


def _fill(match: re.Match[bytes]) -> bytes:
    return b"X" * len(match.group())


def _is_within(node: Any, kinds: Collection[str]) -> bool:
    while node is not None:
        if node.type in kinds:
            return True
        node = node.parent
    return False


class _Names:
    def __init__(self, root: Any) -> None:
        self.assigned: dict[str, str] = {}
        self.first_set: dict[str, int] = {}
        self.assignments: list[Any] = []
        self.used: dict[str, list[Any]] = {}
        self.commands: list[Any] = []
        self.substitutions: list[Any] = []
        self._guarded: set[str] = set()
        waiting = [root]
        while waiting:
            node = waiting.pop()
            self._read(node)
            waiting += node.children
        for name in self._guarded:
            self.used.pop(name, None)

    def _read(self, node: Any) -> None:
        kind = node.type
        if kind == "variable_assignment":
            self.assignments.append(node)
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None:
                # What += adds is not how the value begins.
                adds = value is None or any(child.type == "+=" for child in node.children)
                line = node.start_point[0]
                self.first_set[decode(name)] = min(line, self.first_set.get(decode(name), line))
                self.assigned.setdefault(decode(name), "" if adds else decode(value))
        elif kind in {"for_statement", "declaration_command", "unset_command"}:
            for name in (decode(child) for child in node.children if child.type == "variable_name"):
                self.assigned.setdefault(name, "")
                self.used.setdefault(name, []).append(node)
        elif kind in {"simple_expansion", "expansion"}:
            self._expand(node)
        elif kind == "command":
            self.commands.append(node)
            self._read_into(node)
        elif kind == "unary_expression" and decode(node)[:2] in {"-z", "-n", "-v"}:
            # What is tested for being set may come from outside.
            self._guarded |= set(_NAME.findall(decode(node)[2:]))
        elif kind == "command_substitution":
            self.substitutions.append(node)
        elif kind == "arithmetic_expansion":
            self.used |= {name: [] for name in _NAME.findall(decode(node)) if name not in self.used}

    def _read_into(self, node: Any) -> None:
        first, *rest = (decode(child) for child in node.named_children)
        if first in _READ:
            self.assigned |= {
                name: "" for name in rest if _NAME.fullmatch(name) and name not in self.assigned
            }

    def _expand(self, node: Any) -> None:
        for child in node.named_children:
            if child.type == "subscript":
                child = child.named_children[0]  # noqa: PLW2901 - the name within
            if child.type == "variable_name":
                self.used.setdefault(decode(child), []).append(node)
                if any(mark.type in _DEFAULTS for mark in node.children):
                    self._guarded.add(decode(child))
                break


def own_marks(
    content: bytes, commands: Iterable[ShellCommand], outside: Collection[str] | None, file: str
) -> tuple[ShellMark, ...]:
    """The marks of a script. Never raises.

    ``commands`` are its launches, ``outside`` the names that it need not set, None for any: it
    sources an unknown file.
    """
    lines = content.decode("utf-8", "replace").split("\n")
    names = _Names(syntax_tree(content.replace(b"\r\n", b"\n")))
    return (
        *_find_carriage_returns(lines, file),
        *_find_open_ends(lines, file),
        *_find_lost_lines(names, lines, file),
        *_find_odd_words(names, commands, file),
        *_parentheses(names, file),
        *_find_lost_equals(names, file),
        *_find_misspelt_exports(names, file),
        *_find_set_again(names, lines, file),
        *_find_unfilled(names, file),
        *(() if outside is None else _unset(names, outside, file)),
    )


def _find_carriage_returns(lines: list[str], file: str) -> Iterator[ShellMark]:
    for number, line in enumerate(lines, 1):
        if line.endswith("\r"):
            yield mark("carriage-return", Place(file=file, line=number, column=len(line)))


def _find_open_ends(lines: list[str], file: str) -> Iterator[ShellMark]:
    quotes = 0
    for number, (line, following) in enumerate(zip(lines, (*lines[1:], ""), strict=True), 1):
        if line.lstrip().startswith("#"):
            continue
        is_text, quotes = quotes % 2 == 1, quotes + line.count('"')
        brace = _OPEN_BRACE.search(line)
        if brace:
            where = Place(file=file, line=number, column=brace.start() + 1)
            yield mark("open-brace", where, brace.group())
        test = _OPEN_TEST.fullmatch(line)
        if test and not is_text:
            where = Place(file=file, line=number, column=test.start(1) + 1)
            yield mark("open-test", where, line.strip(), "]" * len(test.group(1)))
        if _OPEN_QUOTE.fullmatch(line) and _QUOTED.match(following):
            where = Place(file=file, line=number, column=line.index('"') + 1)
            yield mark("SC1078", where, line.strip())


def _find_lost_lines(names: _Names, lines: list[str], file: str) -> Iterator[ShellMark]:
    for node in names.commands:
        first = node.child_by_field_name("name")
        if first is None or first.start_point[0] == 0 or _is_within(node, {"ERROR"}):
            continue
        text = decode(first)
        expansion = _EXPANSION.fullmatch(text)
        value = names.assigned.get(expansion.group(1), "") if expansion else text
        rest = _REST.match(value.lstrip("($\"'\\\n\t ") if expansion else value)
        row, column = first.start_point[0], _position(first, file).column - 1
        if lines[row][:column].strip() if row < len(lines) else True:
            continue  # something else begins this line
        above = lines[first.start_point[0] - 1] if first.start_point[0] <= len(lines) else ""
        last = _ALL_ARGUMENTS.fullmatch(text) and _REST.match(above)
        if not rest and not last and not (_FILE.fullmatch(text) and _LAUNCHES.search(above)):
            continue
        line = first.start_point[0]  # counted from 0, so it is the number of the line before
        before = lines[line - 1].rstrip("\r") if line <= len(lines) else ""
        goes_on = before.endswith("\\") and not before.lstrip().startswith("#")
        if goes_on:
            continue
        where = Place(file=file, line=line, column=max(len(before), 1))
        yield mark("lost-line", where, before.strip(), text[:60])


def _find_odd_words(
    names: _Names, commands: Iterable[ShellCommand], file: str
) -> Iterator[ShellMark]:
    for command in commands:
        before = ""
        for word in command.words:
            where = locate(word, file)
            if word.text == "\\":
                yield mark("stray-backslash", where)
            if _LONG_DASH.match(word.text):
                yield mark("typographic-dash", where, word.text)
            option, _, value = word.text.rpartition("=")
            if _TEMPLATE.fullmatch(value):
                yield mark("unfilled", where, value, option or before)
            single = _EXPANSION.fullmatch(value)
            if single and single.group(1) in names.assigned and not word.unresolved:
                yield mark("not-expanded", where, value, single.group(1))
            braced = _BRACED.fullmatch(value)
            name = braced.group(1) if braced else value
            known = name in names.assigned and (braced or _CAPITALS.fullmatch(name))
            # `docker run --env NAME` hands a variable on.
            after = before.startswith("--") and before != "--env"
            if known and (option or after) and not word.unresolved:
                yield mark("lost-dollar", where, value, name)
            before = word.text


def _parentheses(names: _Names, file: str) -> Iterator[ShellMark]:
    """$(NAME) of a variable that the script sets."""
    for node in names.substitutions:
        text = decode(node)
        name = text[2:-1].strip()
        if name in names.assigned and _CAPITALS.fullmatch(name):
            yield mark("parentheses", _position(node, file), text, name)


def _find_lost_equals(names: _Names, file: str) -> Iterator[ShellMark]:
    """`TP 8` where the script uses $TP and sets it nowhere."""
    for node in names.commands:
        name, *values = (decode(child) for child in node.named_children)
        is_used = name in names.used and name not in names.assigned
        if is_used and len(values) == 1 and _CAPITALS.fullmatch(name):
            yield mark("lost-equals", _position(node, file), decode(node), name)


def _find_misspelt_exports(names: _Names, file: str) -> Iterator[ShellMark]:
    """`epoxrt NAME=VALUE`, which runs a program of that name."""
    for node in names.commands:
        first = node.child_by_field_name("name")
        settings = [decode(child) for child in node.named_children if child != first]
        if first is None or not settings or not all(map(_SETTING.fullmatch, settings)):
            continue
        name = decode(first)
        if name != _EXPORT and (
            sorted(name) == sorted(_EXPORT) or edit_distance(name[:_LONGEST], _EXPORT) == 1
        ):
            yield mark("misspelt-export", _position(node, file), name, _EXPORT)


def _find_set_again(names: _Names, lines: list[str], file: str) -> Iterator[ShellMark]:
    running = {node.start_point[0] for node in names.commands}
    last: dict[str, tuple[int, str]] = {}
    for node in sorted(names.assignments, key=lambda node: tuple(node.start_point)):
        field, value = (node.child_by_field_name(part) for part in ("name", "value"))
        holder = node.parent if node.parent.type == "declaration_command" else node
        if field is None or value is None or holder.parent is None:
            continue
        line, name, text = node.start_point[0], decode(field), decode(value)
        adds = any(child.type == "+=" for child in node.children)
        if holder.parent.type != "program" or adds or "$" in text or "`" in text:
            last.pop(name, None)
            continue
        before, earlier = last.get(name, (line, text))
        between = range(before + 1, line)
        if earlier != text and not any(n in running or name in lines[n] for n in between):
            yield mark("set-again", _position(node, file), f"{name}={earlier}", name)
        last[name] = line, text


def _find_unfilled(names: _Names, file: str) -> Iterator[ShellMark]:
    for node in names.assignments:
        name, value = (node.child_by_field_name(field) for field in ("name", "value"))
        if name is None or value is None:
            continue
        words = decode(value)[:_LONGEST].strip("\"'")
        own = " " in words and words.replace(" ", "_").upper() == decode(name).upper()
        if own or _UNFILLED.fullmatch(words) or _TEMPLATE.fullmatch(words):
            yield mark("unfilled", _position(node, file), words, decode(name))


def _unset(names: _Names, outside: Collection[str], file: str) -> Iterator[ShellMark]:
    idle = [name for name in names.assigned if name not in names.used and len(name) >= _LEAST]
    for name, nodes in names.used.items():
        if name in names.assigned or name in outside or not nodes:
            continue
        if name.islower() and name.upper() in _OF_SHELL:
            for node in nodes:
                yield mark("unset-name", _position(node, file), name, name.upper())
        if len(name) < _LEAST:
            continue
        used_elsewhere = [] if _OUTSIDE.fullmatch(name) else list(names.assigned)
        close = (
            slip_of(name, idle)
            or slip_of(name, used_elsewhere, most=1)
            or _other_case(name, names.assigned)
        )
        # One set only further down cannot be meant, unless a function reads it.
        late = names.first_set.get(close, 0) > max(node.start_point[0] for node in nodes)
        if late and not any(_is_within(node, {"function_definition"}) for node in nodes):
            continue
        for node in nodes if close else ():
            yield mark("unset-name", _position(node, file), name, close)


def _other_case(name: str, assigned: Mapping[str, str]) -> str:
    for other, value in assigned.items():
        if other.lower() == name.lower() and name not in value:
            return other
    return ""


def _position(node: Any, file: str) -> Place:
    """tree-sitter counts bytes, people count characters."""
    row, width = node.start_point
    root = node
    while root.parent is not None:
        root = root.parent
    end = node.start_byte - root.start_byte
    before = (root.text or b"")[max(end - width, 0) : end].decode("utf-8", "replace")
    # Before the first node all is blank.
    blank = max(width - end, 0)
    return Place(file=file, line=row + 1, column=blank + len(before) + 1)
