"""What shows that a run gets on or ended well: a log without errors may also be that of a hang.

The last lines decide. A step, a metric or a rate counts anywhere in them, a word such as
"completed" only close to the end.
"""

import re
from collections.abc import Iterable

# Lines from the end to search for steps and for words, and how far into each.
_STEPS, _WORDS = 40, 5
_REACH = 4096

_NUMBER = r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?"
_STEP = (
    r"\b(?:iter(?:ation)?s?|(?:global[ _])?steps?|epochs?|batch(?:es)?|n?updates?|rounds?)\b"
    r"['\"]?\s*[:=#\[(]?\s*['\"]?\d+(?:\s*/\s*\d+)?\b.{0,200}?\d|"
    r"\b(?:\w{0,40}(?:loss|reward|accuracy|perplexity|grad_norm)\w{0,40}|"
    r"(?:\w{0,40}_|[a-z]|val|test|train)?(?:acc|ppl)(?:[\d_]\w{0,40})?)['\"]?"
    rf"(?:\s*[:=|]\s*['\"]?{_NUMBER}|\s+\d+\.\d)|"
    r"\d\s?(?:it|step|samples?|tokens?|tok|iter|images?|imgs?)/s\b|\d\s?s/(?:it|step|iter)\b|"
    r"\d tokens per second|\b\d{1,3}%\|(?![^|]{0,400}\| 0/)|"
    r"\d\s?(?:TFLOPS?|TFLOP/s|GB/s|GiB/s|MB/s)|"
    rf"throughput\W{{1,4}}(?:\w{{1,20}}\W{{1,4}}){{0,3}}{_NUMBER}"
)
_WORD = (
    r"\b(?:successful(?:ly)?|succeed(?:s|ed)?|success|complete[ds]?|completion|finish(?:ed|es)?|"
    r"done|saved|passed|ready)\b|"
    r"\b(?:listening|serving|running) (?:on|at)\b|\blistening,|startup complete|"
    r"\b(?:up and running|healthy|heartbeat|alive)\b|"
    r"\"(?:GET|POST) [^\"]{1,200}\" 200|\b200 OK\b|"
    r"exit(?:ed)?(?: with)?(?: status| code)?[ :=]{1,3}0\b|"
    r"成功|完成|通过|正常|就绪"
)
_WRONG = (
    r"\b(?:fail\w*|time[ds]?[ _-]?out|terminat\w*|non-zero|unable|cannot|retry\w*)\b|"
    r"\bexit(?:ed)?\b.{0,30}\b[1-9]\d{0,2}\b|[:=(]\s{0,2}nan\b|(?:^|\D)0% |"
    r"\w*(?:Error|Exception)\b(?!\s*[:=(]?\s*\d)|\bresum(?:ed|ing) from\b|失败|崩溃|报错|错误|异常"
)
_NOT_YET = (
    r"\b(?:not|no|never|without|wait\w*|until|before|after|if|when|once|should|will|would|please|"
    r"can|must|errors?|try\w*|attempt\w*|expected|ensure|check|signal|warn(?:ing)?|"
    r"restarts|init\w*|(?:un)?load\w*|register\w*|registration|assign\w*|extract\w*|abort\w*)\b|n't\b|未|不|没|请|后"
)
_COUNTERS = tuple(
    re.compile(rf"{shape}\s*['\"]?(\d{{1,9}}(?:\.\d{{1,9}})?)", re.IGNORECASE)
    for shape in (
        r"\b(?:epochs?|rounds?)\b['\"]?\s*[:=#\[(]?",
        r"\b(?:iter(?:ation)?s?|(?:global[ _])?steps?|n?updates?)\b['\"]?\s*[:=#\[(]?",
        r"(?:\bbatch(?:es)?\b['\"]?\s*[:=#\[(]?|\[(?=\s*\d+/\d)|%\|[^|]{0,400}\|)",
    )
)
_GETS_ON, _ENDS_WELL, _SPOILS_STEP, _SPOILS_WORD = (
    re.compile(shape.encode(), re.IGNORECASE)
    for shape in (_STEP, _WORD, _WRONG, f"{_WRONG}|{_NOT_YET}")
)
_LINE = re.compile(rb"[^\r\n]*[^\s][^\r\n]*")


def find_work(tail: bytes) -> int | None:
    """Start of the last line that shows work in the end of a log, else None."""
    rows = list(_LINE.finditer(tail))
    for shape, spoils, reach in (
        (_GETS_ON, _SPOILS_STEP, _STEPS),
        (_ENDS_WELL, _SPOILS_WORD, _WORDS),
    ):
        for row in reversed(rows[-reach:]):
            text = row[0][:_REACH]
            if shape.search(text) and not spoils.search(text):
                return row.start()
    return None


def counts_on(rows: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The lines in which a training counts further than in the one before."""
    steps: list[tuple[int, str]] = []
    last: tuple[float, ...] = ()
    for start, text in rows:
        raw = text.encode()
        if not _GETS_ON.search(raw) or _SPOILS_STEP.search(raw):
            continue
        matches = (counter.search(text) for counter in _COUNTERS)
        count = tuple(float(match[1]) if match else 0.0 for match in matches)
        if any(count) and count > last:
            steps.append((start, text))
            last = count
    return steps
