"""Every example is the project's own: the format of the program, with neutral values."""

import functools
import re
from collections.abc import Iterator

import pytest

from tests.diagnosis.logs import catalog

MAX_LINES = 2
NEUTRAL = re.compile(
    r"2026-?/?01-?/?02|\b(26-)?01-02\b|Jan  2\b|[EW]0?102(?= )|\b2026\b"
    r"|03[:-]?04[:-]?05([-_.,]678(\.?901(234)?)?)?(_678901)?|0000:00:00"
    r"|(?<!\d)100[1-9](?!\d)|\b(29500|ffff00001000|0x12c00000[12]000)\b"
    r"|\b(192\.0\.2\.\d+|127\.0\.0\.1|0\.0\.0\.0)\b"
    r"|(?<=:)101\b|\bline 101\b"
)
CODES = re.compile(r"\b(E[A-Z\d]\d{4}|ERR\d{5}|MIE\w+|errNo\[0x\w+)")
FOREIGN = {
    r"\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d": "date and time 2026-01-02-03:04:05.678.901",
    r"\b\d+\.\d+\.\d+\.\d+\b": "address 192.0.2.1",
    r"0x[0-9a-fA-F]{5,}|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b": "address 0x12c000001000",
    r"\.(?:cpp|cc|c|h|ts|go|py|sh|mlir):\d+|\bLINE:\d+|\bline \d+": "source line 101",
    r"/(?:home|root|Users|mnt|nas|data\d*|workspace)/[\w.-]*": "folder /opt/job or /opt/env",
    r"\d{4,}": "process 1001, port 29500, or a size that is round or a power of two",
}


@functools.cache
def list_constants() -> frozenset[str]:
    """Numbers that programs print: in patterns, and codes of CANN's runtime."""
    patterns = " ".join(pattern for row in catalog().failures.values() for pattern in row.patterns)
    codes = map(str, catalog().error_codes.acl)
    return frozenset([*re.findall(r"0x[0-9a-fA-F]+|\d{4,}", patterns), *codes])


def is_round(number: int) -> bool:
    return number % 1000 == 0 or (number & (number - 1)) == 0 or (number & (number + 1)) == 0


def find_foreign(example: str) -> Iterator[str]:
    """Values of real runs, each with its replacement."""
    text = CODES.sub(" ", NEUTRAL.sub(" ", example))
    for pattern, neutral in FOREIGN.items():
        for value in re.findall(pattern, text):
            if value not in list_constants() and not (value.isdigit() and is_round(int(value))):
                yield f"replace {value} by {neutral}"
        text = re.sub(pattern, " ", text)


def test_examples_hold_no_values_of_a_run() -> None:
    foreign = {row.id: list(find_foreign(row.example)) for row in catalog().failures.values()}
    assert {name: values for name, values in foreign.items() if values} == {}


def test_examples_are_short() -> None:
    lines = {row.id: row.example.count("\n") + 1 for row in catalog().failures.values()}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


@pytest.mark.parametrize(
    "value",
    [
        *("2025-02-16-12:18:25.258.321", "[E1122 09:01:59.920711292", "PID: 2225827"),
        *("10.78.106.107", "0xfffeb02eb000", "KERNEL(1001,fffdd6e1f1e0)", "task.cc:1582]"),
        *('File "/opt/job/train.py", line 582', "/home/zhang/train.py", "57042534400 bytes"),
    ],
)
def test_a_pasted_value_is_refused(value: str) -> None:
    assert list(find_foreign(value))
