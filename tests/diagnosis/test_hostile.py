import importlib
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.diagnosis.patterns import BlockMatches, Patterns
from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.findings import Level
from ascend_doctor.matrix.schema import KnownFailure
from ascend_doctor.redact import Redactor
from ascend_doctor.render import diagnosis as page
from ascend_doctor.render.formats import FORMATS
from ascend_doctor.render.formats.json import pretty
from tests.diagnosis.logs import catalog, of_text

# Escape sequences, carriage returns, C1 and text-reordering controls.
CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
ESCAPES = b"\x1b]0;x\x07\x1b[2J\x9b2J\xe2\x80\xae\r\x00\xff\xfe\x1b"
EXAMPLES = [failure.example.encode() for failure in catalog().failures.values()]
PIECES = st.sampled_from([*EXAMPLES, ESCAPES, b"\n", b"[rank3]: ", b"(a pid=1, ip=x) "])
TEXTS = st.lists(PIECES | st.binary(max_size=40), max_size=12).map(b"".join) | st.binary(
    max_size=400
)


def render_all(diagnosis: Diagnosis) -> list[str]:
    return [
        pretty(diagnosis),
        page.render(diagnosis),
        page.render(diagnosis, ascii_only=True, verbose=True),
    ]


@pytest.mark.slow
@settings(max_examples=150)
@given(text=TEXTS)
def test_no_text_makes_it_raise_or_show_control_sequences(text: bytes) -> None:
    diagnosis = of_text(text + b"\nend\n")
    hidden = Redactor(home="/home/user").apply(diagnosis)
    for rendered in (*render_all(diagnosis), *render_all(hidden), page.paste(diagnosis)):
        assert not CONTROL.search(rendered)
    assert diagnosis.exit_code in {0, 1, 3}
    assert json.loads(pretty(diagnosis))["kind"] == "diagnosis"


@pytest.mark.slow
@settings(max_examples=60)
@given(text=st.sampled_from(EXAMPLES), rest=st.binary(max_size=60))
def test_colours_and_noise_around_it_do_not_hide_a_failure(text: bytes, rest: bytes) -> None:
    noise = bytes(byte for byte in rest if byte not in b"\r\n\x1b")
    plain = of_text(noise + b"\n" + text + b"\nend\n")
    coloured = of_text(noise + b"\n\x1b[31m" + text + b"\x1b[0m\nend\n")
    assert [cause.id for cause in plain.causes] == [cause.id for cause in coloured.causes]
    assert [counted.id for counted in plain.benign] == [counted.id for counted in coloured.benign]


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"text", "json"}))
def test_the_other_formats_show_no_control_sequences_either(name: str) -> None:
    diagnosis = of_text(
        ESCAPES + b"[rank3]: RuntimeError: NPU out of memory. Tried to allocate " + ESCAPES
    )
    render = importlib.import_module(f"ascend_doctor.render.formats.{name}").render
    # Ours: it keeps Markdown from taking OWNER/NAME@COMMIT for a user.
    shown = render(page.as_report(diagnosis, Level.ERROR)).replace("@\u2060", "@")
    assert not CONTROL.search(shown)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+b", r"(\w+\s?)+:x", r"(.{0,40}a){4}z"])
def test_a_pattern_that_backtracks_elsewhere_cannot_here(pattern: str) -> None:
    """Each of these takes Python's re longer than the universe has on such a text."""
    own = KnownFailure(
        id="own",
        title="",
        severity="fatal",
        matches=(pattern,),
        example="",
        basis="log",
        cause="",
        fix="",
        sources=("x",),
    )
    patterns = Patterns([own])
    text = b"a" * 4000 + b"!"
    assert patterns.judge(text)[0] == set()
    assert patterns.places(text * 50, familiar=()) == BlockMatches()


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        b"\r".join([b"EI0006: x"] * 4000),
        b"EI0006: x " * 20_000,
        b"\x1b[" + b"3" * 60_000,
        b"[rank3]: " * 20_000,
        b"(" * 60_000,
        b"localUserrank[1]" * 5_000 + b"EI0006: ",
        b"2024-08-05-" * 10_000 + b"EI0006: ",
        b"a.b.c" * 10_000 + b"Error: x",
        b"host : " * 20_000 + b"Root Cause (first observed failure)",
    ],
)
def test_long_lines_are_looked_at_in_part(line: bytes) -> None:
    diagnosis = of_text(line + b"\n")
    for rendered in render_all(diagnosis):
        assert not CONTROL.search(rendered)
        assert len(rendered) < 20_000


@pytest.mark.slow
def test_many_processes_and_many_errors_are_counted_in_bounded_memory() -> None:
    rows = [
        f"[rank{n}]: Error{chr(97 + n % 26) * (n % 40)}Error: EI0006: {n}" for n in range(20_000)
    ]
    diagnosis = of_text("\n".join(rows))
    assert diagnosis.causes[0].count >= 5_000
    assert diagnosis.causes[0].or_more
    assert len(diagnosis.ranks) <= 4096
    assert len(diagnosis.unexplained) <= 5


def test_seen_lines_rise() -> None:
    diagnosis = of_text("EI0006: a\n" * 3 + "[rank1]: EI0006: b\n")
    lines = [evidence.line for evidence in diagnosis.causes[0].evidence]
    assert all(a < b for a, b in pairwise(lines))
