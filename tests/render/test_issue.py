import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.facts import Environment, Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.render.issue import LONGEST, render
from ascend_doctor.report import Report
from tests.conftest import Command
from tests.fleet.nodes import node
from tests.render.test_html import BROKEN

FAILED = ProbeRun(
    probe="allreduce",
    argv=("torchrun", "x.py"),
    exit_code=1,
    ranks=(ProbeResult(rank=1, stage="sum", error="RuntimeError: no"),),
    output="the end",
)


def report(*findings: Finding, **more: Any) -> Report:
    return node("h", *findings, redacted=True, variables={"HCCL_BUFFSIZE": "200"}, **more)


def test_what_matters_stands_first_and_the_rest_is_folded() -> None:
    made = report(BROKEN, Finding(check="fine", level=Level.OK, title="Fine"))
    made = msgspec.structs.replace(
        made, snapshot=msgspec.structs.replace(made.snapshot, probes=(FAILED,))
    )
    text = render(made)
    order = [
        "### ascend-doctor 1",
        "**1 error",
        "| torch | 2.7.1 |",
        "### error: Broken",
        "```bash\nmend --now\n```",
        "<details><summary>probe allreduce: failed</summary>",
        "```bash\ntorchrun x.py\n```",
        "| 1 | sum | RuntimeError: no |",
        "```text\nthe end\n```",
        "<details><summary>environment (1)</summary>",
        "| HCCL\\_BUFFSIZE | 200 |",
        "<details><summary>host (",
        "<details><summary>ok (1)</summary>",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert text.count("<details>") == text.count("</details>")


def test_it_fits_into_an_issue_and_says_what_it_left_out() -> None:
    many = [
        Finding(check="bad", level=Level.ERROR, title=f"Broken {number}", observed="x" * 900)
        for number in range(200)
    ]
    text = render(report(*many))
    assert len(text) <= LONGEST + 100
    assert "Broken 0" in text
    assert re.search(
        r"^\d+ parts left out for length; attach the JSON report\.$", text, re.MULTILINE
    )
    assert text.count("<details>") == text.count("</details>")


def test_a_simulated_report_says_so() -> None:
    assert "SIMULATED" in render(report(BROKEN, simulated=True))


@pytest.mark.slow
@given(text=st.text(max_size=80) | st.just("</summary><img src=x>\r\n```\n@all #1 $x$\x1b[2J"))
def test_no_text_becomes_markup_or_a_mention(text: str) -> None:
    finding = Finding(check="c", level=Level.ERROR, title=text, observed=text)
    run = ProbeRun(probe=text, ranks=(ProbeResult(stage=text, error=text),), output=text)
    facts = Snapshot(environment=Environment(variables={"A": text}), probes=(run,))
    page = render(report(finding, snapshot=facts))
    outside = re.sub(r"(?s)(`{3,})text\n.*?\n\1\n", "", page)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside)
    assert not re.search(r"[@#][A-Za-z0-9]", outside)
    assert not {character for character in page if ord(character) < 32 and character != "\n"}


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--no-redact", "--format", "markdown"], ["--format", "json"]])
def test_it_is_markdown_and_redacted(doctor: Command, more: list[str]) -> None:
    done = doctor("check", "-l", "0", "--issue", *more)
    assert done.returncode == 2
    assert "--issue is a form of --format markdown, and always redacted" in done.stderr
