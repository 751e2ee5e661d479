"""What every format says of a finding beside its level and title, in one order."""

import itertools
from collections.abc import Callable, Iterable, Iterator

from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.repair import classify
from ascend_doctor.render.plain import lines, shorten
from ascend_doctor.report import Report


def fields(
    finding: Finding, consequences: Iterable[Finding] = (), say: Callable[[str], str] = str
) -> Iterator[tuple[str, str]]:
    """Present labels and texts; a text may have several lines and is not escaped.

    Commands are missing: formats set them apart. ``say`` translates titles of others.
    """
    pairs = (
        ("At", str(finding.location or "")),
        ("Nodes", shorten(finding.nodes)),
        ("Ranks", ", ".join(map(str, finding.ranks))),
        ("Device", ", ".join(map(str, finding.devices))),
        ("Found", finding.observed),
        ("Expected", finding.required),
        ("Why", finding.because),
        *(("Leads to", describe_consequence(each, say)) for each in consequences),
        ("Caused by", finding.because_of),
        *(("Source", ref) for ref in finding.refs),
        ("Fix", finding.remedy.summary if finding.remedy else ""),
    )
    return ((label, text) for label, text in pairs if text)


def first_step(report: Report) -> tuple[str, bool]:
    """What to do first if something is wrong, and whether it is a command, else text; or "".

    Lines for the calling shell belong together; of others the first shows how to go on.
    """
    worst = next(iter(report.complaints), None)
    remedy = worst.remedy if worst else None
    if worst is None or remedy is None or worst.level is Level.WARNING:
        return "", False
    actions = [classify(command, python="") for command in remedy.commands]
    own = list(itertools.takewhile(lambda action: action.kind == "shell", actions))
    command = " && ".join(action.text for action in own or actions[:1])
    if len(lines(command)) > 1:
        # A here-document's first line alone would wait for the rest.
        return f"the command of {worst.check} above", False
    return command or remedy.summary, bool(command)


def describe_consequence(finding: Finding, say: Callable[[str], str] = str) -> str:
    """What follows from another finding, on a line; ``say`` translates it."""
    return f"{say(finding.title)}  [{finding.check}]"


def details(finding: Finding) -> str:
    """A finding as plain lines, every one harmless."""
    pairs = ((finding.level.value, finding.title), *fields(finding))
    rows = [f"{label}: {line}" for label, text in pairs for line in lines(text)]
    commands = finding.remedy.commands if finding.remedy else ()
    return "\n".join([*rows, *(f"  {line}" for text in commands for line in lines(text))])
