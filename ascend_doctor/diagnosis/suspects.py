"""What the logs of a failed run say that those of a good run of the same job do not."""

from collections.abc import Iterable, Iterator

from ascend_doctor.diagnosis.logs import Log, blocks
from ascend_doctor.diagnosis.origins import split_prefixes
from ascend_doctor.diagnosis.result import Evidence, Suspect
from ascend_doctor.patterns import compile_beside

_SHOWN, _ERRORS, _TEXT = 10, 2, 400
# Different lines of a run; a log of free text has no end of them.
_KINDS = 50_000
_IS = compile_beside(__file__)

# The first line of a kind, and the numbers in its lines.
_Kind = tuple[Evidence, set[str]]


def find_suspects(bad: Iterable[Log], good: Iterable[Log]) -> tuple[Suspect, ...]:
    """Two exceptions, then all other lines and values of the failed run alone, in their order."""
    before = _read_kinds(good)
    every = [
        Suspect(evidence=kind[0], good=known[0].text if known else "")
        for name, kind in _read_kinds(bad).items()
        if not (known := before.get(name)) or _is_other_value(kind, known)
    ]
    raised = [each for each in every if _IS["raised"].match(each.evidence.text)][:_ERRORS]
    return (*raised, *(each for each in every if each not in raised))[:_SHOWN]


def _is_other_value(kind: _Kind, known: _Kind) -> bool:
    single = len(kind[1]) == len(known[1]) == 1
    return single and kind[1] != known[1] and not _IS["ofonerun"].search(kind[0].text)


def _read_kinds(logs: Iterable[Log]) -> dict[str, _Kind]:
    """By what is left of a line without numbers and paths."""
    kinds: dict[str, _Kind] = {}
    for line in (line for log in logs for line in _lines(log)):
        text = _IS["path"].sub("/", line.text)
        name = _IS["number"].sub("#", text)
        if any(map(str.isalpha, name)) and (name in kinds or len(kinds) < _KINDS):
            numbers = kinds.setdefault(name, (line, set()))[1]
            if len(numbers) <= 1:
                numbers.add(" ".join(_IS["number"].findall(text)))
    return kinds


def _lines(log: Log) -> Iterator[Evidence]:
    rows = (
        row for block in blocks(log, []) for row in block.decode("utf-8", "replace").split("\n")
    )
    for number, row in enumerate(rows, start=1):
        origin, text = split_prefixes(row, log.origin)
        if not _IS["oftraceback"].match(text):
            body = _IS["front"].sub("", text, count=1)[:_TEXT].strip()
            yield Evidence(file=log.name, line=number, text=body, rank=origin.rank)
