"""What would mend a launch but takes a decision: changes to show, which are not made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.fixing import Judge, Judgement, complaints

# The lines of a file, with what a finding says of them; None where that is not to be told.
Proposal = Callable[[list[str], Finding], list[str] | None]

_MOST_TRIES = 40
_IMPORT = re.compile(r"^(?:import|from)\s+([\w.]+)")
_FUTURE = "__future__"
_ADAPTORS = ("mindspeed.megatron_adaptor", "mindspeed_llm.megatron_adaptor")
_MEGATRON = ("megatron", "mcore_bridge", "swift.megatron")
_LOCAL_RANK = 'int(os.environ["LOCAL_RANK"])'


def _rename_variable(lines: list[str], finding: Finding) -> list[str] | None:
    name, _, _ = finding.observed.partition(" ")
    return _replace_once(lines, finding, rf"\b{re.escape(name)}\b", finding.required)


def _take_out(lines: list[str], finding: Finding) -> list[str] | None:
    """Without the line, where it sets this one variable and nothing else."""
    number = _number(finding)
    name = re.escape(finding.observed.partition("=")[0])
    alone = rf"\s*(?:export\s+)?{name}=(?:\"[^\"]*\"|'[^']*'|[^\s\"';&|\\]*)\s*(?:#.*)?"
    if not re.fullmatch(alone, lines[number]):
        return None
    return [*lines[:number], *lines[number + 1 :]]


def _take_npu(lines: list[str], finding: Finding) -> list[str] | None:
    _, _, device = finding.observed.rpartition(" ")
    return _replace_once(lines, finding, rf"(?<![\w.]){re.escape(device)}(?!\w)", "npu")


def _take_local_rank(lines: list[str], finding: Finding) -> list[str] | None:
    better = _replace_once(lines, finding, r"(?<=set_device\()[^()]*(?=\))", _LOCAL_RANK)
    if better is None or any(re.match(r"import\s+(?:\w+,\s*)*os\b", line) for line in lines):
        return better
    return _insert_import(better, "import os", before=("",))


def _call_npu(lines: list[str], finding: Finding) -> list[str] | None:
    return _replace_once(lines, finding, r"\btorch\.cuda\.set_device\b", finding.required)


def _import_adaptor(lines: list[str], _: Finding) -> list[str] | None:
    return _insert_import(lines, f"import {_ADAPTORS[0]}", before=_MEGATRON)


def _move_adaptor(lines: list[str], _: Finding) -> list[str] | None:
    """The import of the adaptor above that of Megatron, where it is a line of its own."""
    own = [
        number
        for number, line in enumerate(lines)
        if re.fullmatch(rf"\s*import\s+(?:{'|'.join(_ADAPTORS)})\s*(?:#.*)?", line)
    ]
    if len(own) != 1:
        return None
    rest = [*lines[: own[0]], *lines[own[0] + 1 :]]
    # A function that did nothing else would be left without a body.
    if lines[own[0]][:1].isspace() and not _has_company(lines, own[0]):
        return None
    return _insert_import(rest, lines[own[0]].strip(), before=_MEGATRON)


_PROPOSALS: Mapping[str, Proposal] = {
    "variables-misspelt": _rename_variable,
    "variables-harmful": _take_out,
    "verl-on-npu": _take_npu,
    "entry-set-device": _take_local_rank,
    "entry-cuda-device": _call_npu,
    "entry-adaptor": _import_adaptor,
    "entry-import-order": _move_adaptor,
}


def propose(content: bytes, file: str, judge: Judge) -> tuple[bytes, int]:
    """The file with what takes a decision changed, too, and how many findings that mends.

    Each change is judged by itself: a finding has to be gone, and no other may come.
    """
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    judgement = judge(content)
    tries = count = 0
    refused: set[tuple[str, str]] = set()
    while (finding := _next(judgement, file, refused)) is not None and tries < _MOST_TRIES:
        tries += 1
        better = _PROPOSALS[finding.check](lines, finding)
        if better is not None and better != lines:
            after = judge("\n".join(better).encode("utf-8", "surrogateescape"))
            if _is_better(judgement, after):
                lines, judgement, count = better, after, count + 1
                continue
        refused.add((finding.check, finding.title))
    return "\n".join(lines).encode("utf-8", "surrogateescape"), count


def _next(judgement: Judgement, file: str, refused: set[tuple[str, str]]) -> Finding | None:
    for finding in judgement.findings:
        where = finding.location
        if (
            finding.check in _PROPOSALS
            and finding.level in {Level.ERROR, Level.WARNING}
            and where is not None
            and where.file == file
            and (finding.check, finding.title) not in refused
        ):
            return finding
    return None


def _is_better(before: Judgement, after: Judgement) -> bool:
    """Whether something is gone and nothing is new, at whatever line: lines move."""
    old, new = (
        Counter((check, title) for check, title, _ in complaints(each)) for each in (before, after)
    )
    return bool(old - new) and not new - old


def _number(finding: Finding) -> int:
    assert finding.location is not None  # noqa: S101 - chosen by its place
    return finding.location.line - 1


def _replace_once(lines: list[str], finding: Finding, pattern: str, text: str) -> list[str] | None:
    """The lines with a text at the finding's line, if the pattern is there once."""
    number = _number(finding)
    if number >= len(lines) or len(re.findall(pattern, lines[number])) != 1:
        return None
    line = re.sub(pattern, lambda _: text, lines[number])
    return [*lines[:number], line, *lines[number + 1 :]]


def _insert_import(lines: list[str], text: str, before: tuple[str, ...]) -> list[str] | None:
    """The lines with an import above the first one of these packages; "" is any but __future__."""
    for number, line in enumerate(lines):
        match = _IMPORT.match(line)
        name = match.group(1) if match else _FUTURE
        if name != _FUTURE and any(
            not package or f"{name}.".startswith(f"{package}.") for package in before
        ):
            return [*lines[:number], text, *lines[number:]]
    return None


def _has_company(lines: list[str], number: int) -> bool:
    """Whether another statement of the same block stands beside this line."""
    indent = re.match(r"\s*", lines[number])
    assert indent is not None  # noqa: S101 - \s* matches anything
    beside = (lines[other] for other in (number - 1, number + 1) if 0 <= other < len(lines))
    return any(re.match(rf"{indent.group()}[^\s#]", line) for line in beside)
