"""Real launches whose sizes are taken away: none is green, and the line that did it is named."""

import re
from collections import Counter

from ascend_doctor.findings import Level
from tests.acceptance.linting.test_labelled import Label, content, labels
from tests.linting.judged import judge_text

# Sizes, heads, layers, batches and precision, as Megatron-LM, ms-swift and verl spell them.
_SIZE = re.compile(
    r"(?:--|\.)((?:(?:tensor|pipeline|expert)[_-]model|context|expert[_-]tensor)[_-]parallel[_-]size"
    r"|num[_-](?:layers|attention[_-]heads|query[_-]groups|experts)|moe[_-]router[_-]topk"
    r"|hidden[_-]size|(?:global|micro)[_-]batch[_-]size|seq[_-]length|nproc[_-]per[_-]node|nnodes"
    r"|recompute[_-]granularity)[ =]+[\"']?([\w${}./*-]+)"
)
_PRECISION = re.compile(r"(?<=\s)(--(bf16|fp16))(?=\s|$)")
_OF_OTHERS = re.compile(r"rollout|\.ref\.|critic|reward|vllm|sglang")
UNSET = "$SET_BY_NOBODY"
# As many checks are lost, so that something is compared.
LEAST = 100


def levels(label: Label, text: str) -> dict[str, tuple[Level, str]]:
    """The level and the words of each check over all launches of a file, the worst of each."""
    judged = judge_text(label.path, text, label.megatron)
    worst: dict[str, tuple[Level, str]] = {}
    for each in sorted(judged, key=lambda finding: finding.level):
        worst[each.check] = (each.level, each.observed)
    return worst


def obscure(text: str) -> list[tuple[int, str, str]]:
    """Line, option and script for each size that stands in it, its value taken away."""
    made = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = _SIZE.search(line) or _PRECISION.search(line)
        if match and not line.lstrip().startswith("#") and not _OF_OTHERS.search(line):
            value = 2 if match.re is _SIZE else 1
            changed = line[: match.start(value)] + UNSET + line[match.end(value) :]
            script = "\n".join((*lines[: number - 1], changed, *lines[number:]))
            made.append((number, match.group(1), script))
    return made


def test_what_is_not_judged_is_never_green() -> None:
    green: list[str] = []
    count: Counter[str] = Counter()
    for label in labels():
        text = content(label)
        before = levels(label, text)
        for line, option, script in obscure(text):
            after = levels(label, script)
            lost = [
                check
                for check, (level, _) in after.items()
                if level is Level.SKIPPED
                and before.get(check, (Level.SKIPPED, ""))[0] in {Level.OK, Level.ERROR}
                and check.startswith("run-")
            ]
            level, words = after.get("launch-resolved", (Level.OK, ""))
            count["all"] += 1
            count["lost"] += bool(lost)
            named = f"(line {line})" in words or words.endswith(" more")  # of many the first
            if lost and not (level is Level.UNKNOWN and named):
                green.append(f"{label.path}:{line}: {option}: {lost}: {level.value} {words}")
    print(dict(count))  # noqa: T201
    assert count["lost"] >= LEAST
    assert green == []
