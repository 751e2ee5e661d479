"""``ascend-doctor explain``: the manual of a check, failure, error code or variable, offline."""

import difflib
import inspect
import itertools
import re
from collections.abc import Iterator, Sequence

import click

from ascend_doctor.checks import all_checks
from ascend_doctor.commands.explain_package import pages_of_chip, pages_of_package
from ascend_doctor.commands.names import list_manuals
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.judging.judge import Check
from ascend_doctor.judging.value_bounds import describe
from ascend_doctor.language import say
from ascend_doctor.machine.files import is_there
from ascend_doctor.machine.kinds import SCRIPT, recognise_content
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import KnownFailure, Variable, urls
from ascend_doctor.render.columns import wrap
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import LEVELS

_MOST_FAILURES = 5
_WIDTH = 98
# As EI0006, E10001, ERR02005, 507018 or 9.
_CODE = re.compile(r"(?:ERR|E)?[0-9A-Z]{0,2}\d{1,6}", re.IGNORECASE)
_NUMBER = re.compile(r"\d{5,}")
# Shorter numbers are line numbers, ranks and ports.
_SHORTEST_IN_A_LINE = 5
# A shorter one, of HCCL, is any number of a text.
_SHORTEST_KNOWN = 4
# Similarity of a misspelt name, the most suggestions, and words without meaning.
_ALIKE = 0.85
_NEAREST = 3
# "no torch_npu" asks for the check that it is installed.
_NONE = frozenset({"missing", "no", "without"})
_SMALL = _NONE | {"and", "in", "is", "not", "of", "on", "the", "with"}
_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}")
# A log's own text, in no language.
_QUOTED = "For example"
_OWNERS = {
    "reported": "CANN",
    "acl": "the CANN runtime (aclError)",
    "hccl": "the HCCL library (HcclResult)",
}


@click.command("explain")
@click.argument("words", metavar="ID|CODE|VARIABLE|PACKAGE|LINE", nargs=-1)
@matrix_option
def command(words: tuple[str, ...], overlays: tuple[str, ...]) -> int:
    """Explain a check, known failure, error code, variable, package, or a line of a log.

    \b
    ascend-doctor explain cann-installed
    ascend-doctor explain EI0006
    ascend-doctor explain HCCL_CONNECT_TIMEOUT
    ascend-doctor explain torch_npu==2.7.1.post4
    ascend-doctor explain "RuntimeError: call aclnnNonzeroV2 failed, error code is 507018"
    """
    text = " ".join(words).strip()
    if not text:
        raise click.UsageError("name a check, a failure, a code or a variable, or paste a line")
    rows = catalog(overlays)
    spellings = dict.fromkeys((text, text.lower(), text.upper()))
    named = (list(pages_by_name(spelling, rows)) for spelling in spellings)
    pages = (
        next(filter(None, named), [])
        or list(_pages_of_line(text, rows))
        or list(pages_of_package(text, rows))
        or list(pages_of_chip(text, rows))
    )
    if not pages:
        raise click.UsageError(_why_nothing(text, rows))
    click.echo("\n\n".join(pages))
    return 0


def pages_by_name(text: str, rows: Catalog) -> Iterator[str]:
    """Manual pages of a failure, check, variable or error code of this name."""
    if failure := rows.failures.get(text):
        yield _explain_failure(failure)
    elif topic := TOPICS.get(text):
        head = f"{text}: {say(topic.title)}\n{say('in merged reports')}"
        yield "\n\n".join((head, *_say_paragraphs(topic.explain)))
    elif check := next((check for check in all_checks() if check.id == text), None):
        yield _explain_check(check, rows)
    elif variable := rows.variables.find(text):
        yield _explain_variable(variable)
    elif near := next((row for row in rows.variables.near_misses if row.wrong == text), None):
        yield say(f"{text}: no such variable; it is {near.right}")
    elif _CODE.fullmatch(text):
        yield from _pages_of_code(text.upper(), rows)


def _pages_of_code(code: str, rows: Catalog) -> Iterator[str]:
    codes = rows.error_codes
    number = int(code) if code.isdigit() else -1
    meanings = {
        "reported": codes.reported.get(code),
        "acl": codes.acl.get(number),
        "hccl": codes.hccl.get(number),
    }
    for owner, meaning in meanings.items():
        if meaning:
            yield f"{code}: {say(meaning)}\n" + say(f"an error code of {_OWNERS[owner]}")
    if guide := rows.error_guides.get(code):
        yield _page(
            say(f"{code}: cause and remedy"),
            {"Cause": say(guide.cause), "Remedy": say(guide.remedy)},
        )
    as_word = re.compile(rf"\b{re.escape(code)}\b")
    # A code without a guide is the only sign of a failure.
    own = () if guide or code not in codes.reported else _list_failures(f"{code}: ", rows)
    yield from (_explain_failure(rows.failures[name]) for name in own)
    failures = [
        row
        for row in rows.failures.values()
        if len(code) >= _SHORTEST_KNOWN
        and row.id not in own
        and any(as_word.search(text) for text in (row.title, row.example, *row.matches))
    ]
    if failures and not own and not guide:
        yield _explain_failure(failures.pop(0))
    if failures:
        yield say("Known failures with this code:") + "".join(
            f"\n  {failure.id}: {say(failure.title)}" for failure in failures
        )


def _list_failures(text: str, rows: Catalog) -> list[str]:
    from ascend_doctor.diagnosis.patterns import Patterns

    shown, _ = Patterns(rows.failures.values()).judge(text.encode())
    beaten = {name for failure in shown for name in rows.failures[failure].beats}
    return sorted(shown - beaten)[:_MOST_FAILURES]


def _pages_of_line(text: str, rows: Catalog) -> Iterator[str]:
    from ascend_doctor.diagnosis.possibilities import mask

    shown = _list_failures(mask(text, list, whole=text), rows)
    yield from (_explain_failure(rows.failures[name]) for name in shown)
    for word in dict.fromkeys(re.findall(r"\w+", text)):
        if not shown and len(word) >= _SHORTEST_IN_A_LINE and _CODE.fullmatch(word):
            yield from _pages_of_code(word, rows)
        if _NAME.fullmatch(word) and (variable := rows.variables.find(word)):
            yield _explain_variable(variable)


def _explain_check(check: Check, rows: Catalog) -> str:
    head = f"{check.id}: {say(check.title)}\n" + say(f"level {check.level}: {LEVELS[check.level]}")
    caught = [row for row in rows.failures.values() if check.id in row.caught_by]
    more = {"Check it": f"ascend-doctor check -l {check.level} --only {check.id}"}
    if caught:
        more |= {_QUOTED: caught[0].example, "What to do": caught[0].fix}
    more["Known failures"] = " ".join(row.id for row in caught[:_MOST_FAILURES])
    return _page("\n\n".join((head, *_say_paragraphs(check.explain))), more)


def _say_paragraphs(text: str) -> Iterator[str]:
    return map(_say_paragraph, inspect.cleandoc(text).split("\n\n"))


def _say_paragraph(text: str) -> str:
    """A paragraph in the chosen language, where it has one; lines are broken as in the source."""
    whole = " ".join(text.split())
    translation = say(whole)
    return text if translation == whole else "\n".join(wrap(translation, _WIDTH))


def _explain_failure(failure: KnownFailure) -> str:
    return _page(
        f"{failure.id}: {say(failure.title)}",
        {
            _QUOTED: failure.example,
            "Why": failure.cause,
            "What to do": failure.fix,
            "Affected": failure.affected,
            "Before a run": failure.before,
            "Checks that look for it": " ".join(failure.caught_by),
            "Sources": "\n".join(failure.sources),
            f"{failure.severity}, found in logs by": "\n".join(failure.patterns),
        },
    )


def _explain_variable(variable: Variable) -> str:
    return _page(
        f"{variable.name}: {say(variable.meaning)}",
        {
            "Values": variable.valid or describe(variable),
            "Default": variable.default,
            "Recommended": variable.recommend,
            "Mistakes": "\n".join(map(say, variable.mistakes)),
            "Sources": "\n".join(urls(variable.sources)),
        },
    )


def _page(head: str, parts: dict[str, str]) -> str:
    blocks = (
        f"\n\n{say(title)}:\n{text if title == _QUOTED else _say_paragraph(inspect.cleandoc(text))}"
        for title, text in parts.items()
        if text
    )
    return head + "".join(blocks)


def _why_nothing(text: str, rows: Catalog) -> str:
    shown = repr(one_line(text))
    if text.isdigit():
        hint = "explain the line that it stands in, or `ascend-doctor diagnose LOG`"
        return f"no source that was read says what code {text} means; {hint}"
    if _NAME.fullmatch(text) or not re.search(r"\s", text):
        if is_there(text):
            command = f"`ascend-doctor diagnose {one_line(text)}`"
            return f"{shown} is a file or folder; {command} reads logs"
        root = click.get_current_context().find_root()
        if isinstance(root.command, click.Group) and text in root.command.list_commands(root):
            command = f"`ascend-doctor {text} --help`"
            return f"{shown} is a command; {command} explains it"
        close = _near(text, rows)
        hint = f"did you mean {close}?" if close else "`ascend-doctor list` has the checks"
        if text.endswith("Error"):
            hint = "explain its whole line"
        return f"no check, failure, code or variable is called {shown}; {hint}"
    if recognise_content(text.encode("utf-8", "replace")) is SCRIPT:
        return f"{shown} is a command; `ascend-doctor lint -- {one_line(text)}` checks it"
    return "nothing is known of this line; `ascend-doctor diagnose LOG` reads what stands around it"


def _near(text: str, rows: Catalog) -> str:
    number = _NUMBER.search(text)
    if number and any(pages_by_name(number[0], rows)):
        return number[0]
    return ", ".join(_with_title(name, rows) for name in _alike(text, list_manuals(rows), rows))


def _alike(text: str, names: Sequence[str], rows: Catalog) -> list[str]:
    if near := difflib.get_close_matches(text, names, n=1, cutoff=_ALIKE):
        return near
    parts = re.split(r"[\W_]+", text.lower())
    words = [word for word in parts if word and word not in _SMALL]
    titles = {name: _with_title(name, rows).lower() for name in names}
    fits = [
        name for name, title in titles.items() if words and all(word in title for word in words)
    ]
    absent = [f"{word}-installed" for no, word in itertools.pairwise(parts) if no in _NONE]
    choice = [name for name in absent if name in titles]
    choice += difflib.get_close_matches(text, fits, n=_NEAREST, cutoff=0)
    choice += difflib.get_close_matches(text, names, n=_NEAREST)
    return list(dict.fromkeys(choice))[:_NEAREST]


def _with_title(name: str, rows: Catalog) -> str:
    check = next((check for check in all_checks() if check.id == name), None)
    failure = rows.failures.get(name)
    title = check.title if check else failure.title if failure else ""
    return f"{name} ({say(title)})" if title else name
