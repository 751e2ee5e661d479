"""``ascend-doctor matrix solve``: the versions for a framework, a Megatron-LM or a package."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ascend_doctor.commands.matrix import write
from ascend_doctor.commands.options import flag, repeated
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.commands.options.launch import framework_option
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.exits import EXIT_FINDINGS
from ascend_doctor.findings import quantity
from ascend_doctor.language import say
from ascend_doctor.matrix.queries import MACHINE_FACTS, is_version, near_rows
from ascend_doctor.matrix.versions import narrow
from ascend_doctor.render.columns import wrap
from ascend_doctor.render.formats.json import pretty

if TYPE_CHECKING:
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.provision.conflict import Refusal
    from ascend_doctor.provision.request_ranges import StackRequest
    from ascend_doctor.provision.set_choice import Answer, SetSearch
    from ascend_doctor.provision.solve import SolveQuery

_WIDTH = 98
_MOST_LINES = 10
_SETS_SHOWN = 3
_FIRST = ("driver", "cann", "nnal", "python", "torch", "torch-npu", "torchvision")
_THEN = ("megatron-lm", "megatron-core", "mindspeed")

with_option = repeated(
    "--with",
    "additions",
    metavar="NAME[==VERSION]",
    help="Have this as well, or in this version; repeatable.",
)


@click.command("solve")
@click.option("--megatron", metavar="X", help="0.15.3, 0.15, or a ref.")
@framework_option
@with_option
@repeated(
    "--on",
    "pins",
    metavar="NAME=VERSION",
    help="A machine fact (cann, driver, python, arch, soc) instead of this machine's, as cann=8.5 "
    "or soc=A3; repeatable.",
)
@flag("--anywhere", help="Leave this machine out of the question.")
@flag("--doubts", help="Allow pairs that no document names and nothing refuses; each is listed.")
@flag("-v", "--verbose", help="Sources, patches and every doubt.")
@matrix_option
@shape_option
def command(
    *,
    megatron: str | None,
    framework: str | None,
    additions: tuple[str, ...],
    pins: tuple[str, ...],
    anywhere: bool,
    doubts: bool,
    verbose: bool,
    overlays: tuple[str, ...],
    shape: str,
) -> int:
    """Find the versions for a framework, a Megatron-LM or a package, or say why there are none.

    A set that somebody ran as a whole comes before a mix of documented pairs.

    \b
    ascend-doctor matrix solve --framework ms-swift --on soc=A2 --on cann=8.5
    ascend-doctor matrix solve --with vllm-ascend==0.18.0
    """
    from ascend_doctor.provision.conflict import refusal
    from ascend_doctor.provision.request_ranges import StackRequest
    from ascend_doctor.provision.set_choice import SetSearch
    from ascend_doctor.provision.solve import SolveQuery, solve

    rows = catalog(overlays)
    request = StackRequest(megatron=megatron, framework=framework, additions=additions)
    request = request.spell(rows)
    if request == StackRequest() and not pins:
        raise click.UsageError(
            "say what it is for: --megatron, --framework, --with, or --on driver=… --on cann=…"
        )
    wishes = request.ranges(rows) | lines_on(rows, pins)
    machine, about = _machine(rows, pins, anywhere=anywhere)
    query = SolveQuery(wishes=wishes, machine=machine, doubts=doubts)
    search = SetSearch(rows, query, request, solve)
    answer = search.answer()
    if answer is None and not any(pin.startswith("python=") for pin in pins):
        search, answer = _with_other_python(search)
        pins = (*pins, f"python={search.query.machine['python']}") if answer else pins
    asked = [*_as_options(request, pins)]
    asked += ["--doubts"] if asked and doubts else []
    if shape == "json":
        chosen = answer.chosen if answer else None
        result = answer.solution if answer else refusal(rows, query)
        content = {"schema": 1, "machine": machine, "found": answer is not None, "set": chosen}
        write(pretty({**content, "result": result}))
    elif answer is not None:
        built = None if doubts else search.build()
        same = built is not None and built.solution == answer.solution
        lines = [*_answer(rows, answer, asked)]
        room = len(answer.solution.doubts) if verbose else _MOST_LINES - 2 - len(lines)
        more = _details(rows, answer) if verbose else ()
        write(*lines, *_doubts(answer, room), *more)
        write(about, *_next(answer, asked, buildable=same))
    else:
        write(*_none(search, asked), about)
    return 0 if answer is not None else EXIT_FINDINGS


def _with_other_python(search: SetSearch) -> tuple[SetSearch, Answer | None]:
    """A search with a Python that would fit, and its answer; setup takes any Python."""
    query = search.query
    machine = {name: fact for name, fact in query.machine.items() if name != "python"}
    free = replace(search, query=replace(query, machine=machine)).answer()
    python = free.solution.versions.get("python") if free else None
    if not python or "python" not in query.machine:
        return search, None
    other = replace(search, query=replace(query, machine={**machine, "python": python}))
    text = f"python {python}: this machine's {query.machine['python']} does not fit"
    answer = other.answer()
    return other, answer and replace(answer, differences=(*answer.differences, text))


def _as_options(request: StackRequest, pins: Iterable[str]) -> Iterator[str]:
    named = [("--megatron", request.megatron), ("--framework", request.framework)]
    named += [("--with", addition) for addition in request.additions]
    named += [("--on", pin) for pin in pins if any(value for _, value in named)]
    yield from (f"{name} {shlex.quote(value)}" for name, value in named if value)


def facts_on(rows: Catalog, pins: Iterable[str]) -> dict[str, str]:
    """--on's facts, but lines: a chip's family, Python's line. Raises UsageError: unknown."""
    machine = {}
    for pin in pins:
        name, mark, version = pin.partition("=")
        if not mark or name not in MACHINE_FACTS:
            raise click.UsageError(
                f"--on {pin}: give NAME=VERSION with one of {', '.join(MACHINE_FACTS)}"
            )
        if name not in lines_on(rows, [pin]):
            machine[name] = _fact(rows, name, version)
    return machine


def lines_on(rows: Catalog, pins: Iterable[str]) -> dict[str, str]:
    """Ranges of --on, as of cann=8.5."""
    from ascend_doctor.provision.request_ranges import range_of

    texts = [pin.removeprefix("cann=") for pin in pins if pin.startswith("cann=")]
    known = [range_of(rows, "cann", text) for text in texts if is_version("ascend", text)]
    return {name: line for line in known for name in ("cann",) if line.endswith("X")}


def _fact(rows: Catalog, name: str, version: str) -> str:
    known = [row.version for row in rows.component(name).releases]
    if name == "soc":
        family = rows.family_called(version)
        version = family.id if family else version
    elif name == "python" and re.fullmatch(r"3\.\d+\.\d+", version):
        version = version.rpartition(".")[0]
    part = rows.component(name)
    listed = version in known or not known or name == "driver"
    if not listed or not is_version(part.scheme, version):
        near = near_rows(part, version)
        raise click.UsageError(
            f"--on {name}={version}: no such version in the matrix; near: {near}"
        )
    return version


def _machine(rows: Catalog, pins: Sequence[str], *, anywhere: bool) -> tuple[dict[str, str], str]:
    """The facts of the machine, and a line on where they are from."""
    from ascend_doctor.collect.snapshot import Taking, take
    from ascend_doctor.machine.live import LiveMachine
    from ascend_doctor.provision.request_ranges import machine_of

    named, lines = facts_on(rows, pins), lines_on(rows, pins)
    here = {}
    if not anywhere:
        taking = Taking(only=("python", "npus", "host", "driver", "cann"))
        here = machine_of(take(LiveMachine(), rows, taking=taking), rows)
    if "soc" in named and "soc" not in here:
        here = {}
    machine = {"soc": rows.usual_family.id, **here, **named}
    for name in lines:
        machine.pop(name, None)
    chip = rows.family(machine["soc"]).title.partition(" (")[0].partition(",")[0]
    if "soc" not in named and "soc" not in here:
        chip += say(" with 64 GB (assumed; --on soc=A3 for another)")
    asked = {name: value for name, value in named.items() if name != "soc"}
    asked |= {name: text.removeprefix("==") for name, text in lines.items()}
    own = [f"{name} {value}" for name, value in here.items() if machine.get(name) == value]
    text = ", ".join([chip, *(f"{name} {value}" for name, value in asked.items())])
    if own := [pair for pair in own if pair.partition(" ")[0] not in named]:
        text += "; " + say(f"of this machine: {', '.join(own)}")
    return machine, f"{say('for')}: {text}"


def _answer(rows: Catalog, answer: Answer, asked: Sequence[str]) -> Iterator[str]:
    chosen = answer.chosen
    if chosen:
        marks = [f"{say(chosen.title)} [{chosen.id}]"]
        if answer.forced:
            marks.append(say("pip refuses it, for its packages exclude each other"))
        if chosen.patches:
            marks.append(say(f"it patches code in {quantity(len(chosen.patches), 'step')} (-v)"))
        yield f"{say('set')}: {'; '.join(marks)}"
    elif stacks := _stacks(answer):
        yield f"{say('stack')}: {', '.join(stacks)}"
    else:
        yield say(
            "no set fits as a whole; these are documented pairs:" if asked else "these go together:"
        )
    yield from (f"{say('but')} {say(text)}" for text in answer.differences)
    yield from _versions(answer)
    if settings := _settings(rows, answer):
        shown = (f"{name}={value}" for name, value in settings.items())
        yield f"{say('variables')}: {' '.join(shown)}"


def _versions(answer: Answer) -> Iterator[str]:
    solution = answer.solution
    pins = answer.chosen.pins if answer.chosen else {}
    versions = {**pins, **solution.versions, **solution.refs}
    ordered = sorted(versions.keys() - {"soc", "arch", "glibc"}, key=_rank_name)
    others = answer.chosen.others if answer.chosen else {}
    ranges = {
        name: narrow(texts) for name, texts in sorted(solution.ranges.items()) if name not in pins
    }
    for word, pairs in (
        ("", {name: versions[name] for name in ordered}),
        (say("also"), others),
        (say("and"), {name: text for name, text in ranges.items() if text}),
    ):
        listed = ", ".join(f"{name} {version}" for name, version in pairs.items())
        if listed:
            yield from (f"  {line}" for line in wrap(f"{word} {listed}".strip(), _WIDTH - 2))


def _stacks(answer: Answer) -> tuple[str, ...]:
    """The stacks it is within; of packages alone they say nothing."""
    return answer.solution.stacks if "megatron-lm" in answer.solution.versions else ()


def _rank_name(name: str) -> tuple[int, str]:
    order = (*_FIRST, *_THEN)
    return (order.index(name) if name in order else len(order), name)


def _settings(rows: Catalog, answer: Answer) -> dict[str, str]:
    from ascend_doctor.provision.solution_plan import nearest_stack

    versions = answer.solution.versions
    stack = nearest_stack(rows, answer.solution) if "megatron-lm" in versions else None
    named = answer.chosen.environment if answer.chosen else {}
    return {**(stack.environment if stack else {}), **named}


def _doubts(answer: Answer, room: int) -> Iterator[str]:
    doubts = answer.solution.doubts
    shown = doubts if len(doubts) <= room else doubts[: max(room - 1, 0)]
    for doubt in shown:
        got = say(f"got {doubt.version}" if doubt.version else "another range is needed")
        need = say(f"{doubt.by} is documented with {doubt.need.component} {doubt.need.versions}")
        yield f"{say('doubt')}: {need}; {got}"
    if rest := len(doubts) - len(shown):
        yield say(f"and {quantity(rest, 'more doubt')} (-v)")


def _details(rows: Catalog, answer: Answer) -> Iterator[str]:
    chosen = answer.chosen
    sources = [(chosen.id, source) for source in chosen.sources] if chosen else []
    if chosen:
        yield from (f"{say('patch')}: {text}" for text in chosen.patches)
        if chosen.note:
            yield f"{say('note')}: {say(chosen.note)}"
    for identity in _stacks(answer):
        sources += [(identity, source) for source in rows.stack(identity).sources]
    yield from (
        f"{say('source')}: {source.url}, {source.date} [{name}]" for name, source in sources
    )


def _next(answer: Answer, asked: Sequence[str], *, buildable: bool) -> Iterator[str]:
    """What to type next."""
    if asked and buildable:
        yield f"{say('Next')}: ascend-doctor setup {' '.join(asked)} --prefix ~/stack --dry-run"
    elif answer.chosen:
        yield f"{say('Next')}: ascend-doctor matrix show {answer.chosen.id}"
    elif asked:
        yield f"{say('Next')}: ascend-doctor matrix solve {' '.join(asked)} -v"


def _none(search: SetSearch, asked: Sequence[str]) -> Iterator[str]:
    """Why there is no answer: pairs that exclude each other, and what sets are for."""
    from ascend_doctor.provision.conflict import refusal

    rows, query, name = search.catalog, search.query, search.request.framework_name
    version = search.request.framework_version
    own = [row for row in rows.sets if row.framework == name]
    shown = [row for row in own if version in {"", row.version}]
    if not name or name in rows.component_ids:
        yield from refusal_lines(refusal(rows, query), query)
    elif shown:
        yield say(f"no set of {name} fits")
    else:
        known = ", ".join(dict.fromkeys(row.version for row in own))
        yield say(f"no set has {name} {version}; there are {known}")
    for row in shown[:_SETS_SHOWN]:
        why = search.misfit(row) or "its packages exclude each other"
        yield f"{say('not')} {row.id}: {say(why)}"
    following = f"show {(shown or own)[0].id}" if own else f"solve {' '.join(asked)} --doubts"
    yield f"{say('Next')}: ascend-doctor matrix {following}"


def refusal_lines(refused: Refusal, question: SolveQuery) -> Iterable[str]:
    wishes_ = [f"{name} {question.wishes[name]}".rstrip() for name in refused.wishes]
    pins = [f"{name} {question.machine[name]}" for name in refused.machine]
    both = say(" and ")
    shown = both.join(wishes_)
    if pins and not shown:
        yield say(f"{both.join(pins)} do not go together")
    elif pins:
        yield say(f"no stack has {shown} on a machine with {both.join(pins)}")
    else:
        yield say(f"no stack has {shown}")
    yield from (f"{say('because')} {say(reason)}" for reason in refused.reasons)
    yield from (f"{say('would fit')}: {say(change)}" for change in refused.changes)
