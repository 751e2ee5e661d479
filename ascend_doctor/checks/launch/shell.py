"""Shell scripts as text: mistakes by which a launch does not start, or starts as another one."""

from collections.abc import Collection, Iterator

from ascend_doctor.facts import ShellMark, ShellScript
from ascend_doctor.judging import Finding, Findings, Level, NotApplicable, Texts, first_of
from ascend_doctor.judging.judge import Case, Judgement

TEXTS = Texts("shell")
_UNFILLED = "unfilled"
_SHOWN = 5


def _marks(case: Case, rules: Collection[str]) -> Iterator[ShellMark]:
    lines: set[tuple[str, int]] = set()
    for mark in _script(case).marks:
        where = mark.location.file, mark.location.line
        if mark.rule in rules and where not in lines:
            lines.add(where)
            yield mark


def _script(case: Case) -> ShellScript:
    if case.facts.shell_script is None:
        raise NotApplicable("no shell script was given; `ascend-doctor lint FILE` reads one")
    return case.facts.shell_script


def _finding(mark: ShellMark) -> Finding:
    wiki = f"https://www.shellcheck.net/wiki/{mark.rule}"
    refs = (wiki,) if mark.rule.startswith("SC") else ()
    return TEXTS.finding(mark.rule, mark.location, refs=refs, text=mark.text, near=mark.near)


def _judge_marks(identity: str) -> Judgement:
    rules = TEXTS.of_check(identity)
    levels = [{name for name in rules if rules[name].level is level} for level in Level]

    def judge(case: Case) -> Findings:
        for names in reversed(levels):
            yield from map(_finding, _marks(case, names))

    return judge


def _line_ends(case: Case) -> Findings:
    marks = list(_marks(case, ("carriage-return",)))
    if marks:
        where = marks[0].location
        yield TEXTS.finding("carriage-return", where, count=len(marks), line=where.line)


def _placeholders(case: Case) -> Findings:
    marks = sorted(_marks(case, (_UNFILLED,)), key=lambda mark: mark.location.line)
    if len(marks) <= 1:
        yield from map(_finding, marks)
        return
    shown = first_of([f"{mark.near} (line {mark.location.line})" for mark in marks], _SHOWN)
    where = marks[0].location
    yield TEXTS.finding("several-unfilled", where, count=len(marks), observed=shown)


def _read(case: Case) -> Findings:
    script = _script(case)
    if script.unjudged:
        yield TEXTS.finding("not-judged", unjudged=script.unjudged)


_OTHERS: dict[str, Judgement] = {
    "shell-line-ends": _line_ends,
    "shell-placeholders": _placeholders,
    "shell-read": _read,
}
for each in TEXTS.checks:
    TEXTS.check(each)(_OTHERS.get(each) or _judge_marks(each))
