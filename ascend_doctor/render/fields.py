"""What every format says of a finding beside its level and title, in one order."""

from collections.abc import Callable, Iterable, Iterator

from ascend_doctor.findings import Finding
from ascend_doctor.render.plain import lines, shorten


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


def describe_consequence(finding: Finding, say: Callable[[str], str] = str) -> str:
    """What follows from another finding, on a line; ``say`` translates it."""
    return f"{say(finding.title)}  [{finding.check}]"


def details(finding: Finding) -> str:
    """A finding as plain lines, every one harmless."""
    pairs = ((finding.level.value, finding.title), *fields(finding))
    rows = [f"{label}: {line}" for label, text in pairs for line in lines(text)]
    commands = finding.remedy.commands if finding.remedy else ()
    return "\n".join([*rows, *(f"  {line}" for text in commands for line in lines(text))])
