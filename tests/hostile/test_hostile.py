"""Hostile inputs over every command that reads a file: each ends in time with a code of ours."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ascend_doctor.render.formats import FORMATS
from tests.hostile import runner
from tests.hostile.commands import WHOLE, Job, write_jobs
from tests.programs import run_bytes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CODES = {0, 1, 2, 3}
CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
# Only a backslash, a quote and a line end are escaped.
_LABEL = r'[a-z]+="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"[a-z_]+(\{{{_LABEL}(,{_LABEL})*\}})? -?[0-9.e+]+")
ID = re.compile(r"[a-z0-9-]{1,64}")
# What these inputs are to every command that has to understand them.
HURTFUL = ("latin", "deep lists", "deep mappings", "deep and open", "aliases", "merge keys")
REFUSED = {
    **dict.fromkeys(("judge", "plan", "check --replay", "check --lock", "lint --config"), 2),
    **dict.fromkeys(("setup --locked", "diagnose --matrix", "matrix list"), 2),
    **dict.fromkeys(("merge", "lint pod.yaml", "lint train.py"), 3),
}


def test_every_hostile_input_ends_well(tmp_path: Path) -> None:
    jobs = write_jobs(tmp_path)
    assert len(jobs) >= 500
    results = _results(tmp_path, jobs)
    wrong = [
        f"{job.name}: {problem}"
        for job, result in zip(jobs, results, strict=True)
        if (problem := _wrong(job, result))
    ]
    assert not wrong, f"{len(wrong)} of {len(jobs)}:\n" + "\n".join(wrong)
    assert not list(tmp_path.rglob("owned"))
    codes = {job.name: result["code"] for job, result in zip(jobs, results, strict=True)}
    for command, code in REFUSED.items():
        assert {how: codes[f"{command} {how}"] for how in HURTFUL} == dict.fromkeys(HURTFUL, code)
    whole = [n for n, job in enumerate(jobs) if job.name.endswith(f" {WHOLE}")]
    assert len(whole) >= 14
    refused = [f"{jobs[n].name}: {results[n]['err']}" for n in whole if results[n]["code"] == 2]
    assert not refused, "the whole file is to be read"
    shown = [
        result
        for job, result in zip(jobs, results, strict=True)
        if job.name == "merge hostile texts" and "pwn" in result["out"]
    ]
    assert len(shown) >= len(FORMATS) - 1, (
        "hostile texts that are read are shown, but by Prometheus"
    )


def _results(folder: Path, jobs: list[Job]) -> list[dict[str, Any]]:
    """Each job's end; a job that killed its process has the signal."""
    file = folder / "results"
    file.touch()
    env = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    results: list[dict[str, Any]] = []
    while len(results) < len(jobs):
        done = run_bytes(
            [sys.executable, runner.__file__, folder / "jobs.json", file, str(len(results))],
            check=False,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            timeout=580,
        )
        results = [json.loads(line) for line in file.read_text().splitlines()]
        if len(results) < len(jobs):
            dead = {"code": f"killed: {done.returncode}", "out": "", "err": ""}
            results.append({"job": len(results), **dead})
            with file.open("a") as more:
                more.write(json.dumps(results[-1]) + "\n")
    return results


def _wrong(job: Job, result: dict[str, Any]) -> str:
    """What is wrong with an end and its output, or ""."""
    out, err = result["out"], result["err"]
    if result["code"] not in CODES:
        return f"ended with {result['code']}: {err[-300:]}"
    if result["code"] == 2 and len(err.splitlines()) != 1:
        return f"not one line: {err[:300]}"
    # Markdown breaks mentions and links of code hosts with a word joiner.
    text = out.replace("\u2060", "") if job.shape == "markdown" else out
    if match := CONTROL.search(text + err):
        return f"control character {match[0]!r}"
    if "##[" in out + err or "##vso[" in out + err:
        return "a command for a log reader"
    lines = [line.strip() for line in (out + err).splitlines() if line.strip().startswith("::")]
    ours = (
        r"::(error|warning|notice) (file=[^:,]+,line=\d+,)?title=[^:,]+::"
        if (job.shape == "github")
        else "(?!)"
    )
    if ill := [line for line in lines if not re.match(ours, line)]:
        return f"a workflow command: {ill[0][:200]}"
    return _form(job.shape, out) if out else ""


def _form(shape: str, out: str) -> str:
    """What is wrong with a format's text."""
    try:
        if shape in {"json", "sarif"}:
            json.loads(out)
        elif shape == "jsonl":
            _ = [json.loads(line) for line in out.splitlines()]
        elif shape == "junit":
            names = [element.get("name", "") for element in ET.fromstring(out).iter("testcase")]
            return "".join(f"test case {name!r}" for name in names if not ID.fullmatch(name))
        elif shape == "prometheus":
            lines = [line for line in out.splitlines() if not line.startswith("#")]
            return "".join(f"no sample: {line}" for line in lines if not SAMPLE.fullmatch(line))
    except (ValueError, ET.ParseError) as error:
        return f"no {shape}: {error}"
    if shape == "markdown":  # code behind a fence is shown as it is
        out = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", out, flags=re.MULTILINE | re.DOTALL)
    if shape in {"html", "markdown"} and "<script>alert" in out:
        return f"markup in {shape}"
    if shape == "markdown" and re.search(r"(?<!\\)\]\(javascript", out):
        return "a link in markdown"
    return ""


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [
        ("killed: -11", "", ""),
        (70, "", ""),
        ("late", "", ""),
        (2, "", "one\ntwo\n"),
        (0, "\x1b[2J", ""),
        (0, "  ::set-output name=a::b", ""),
        (0, "x ##[error]y", ""),
    ],
)
def test_what_is_wrong_is_seen(code: object, out: str, err: str) -> None:
    assert _wrong(Job("x", ()), {"code": code, "out": out, "err": err})


def test_forms_that_are_broken_are_seen() -> None:
    assert _form("json", "{")
    assert _form("junit", "<a><testcase name='X Y'/></a>")
    assert _form("prometheus", 'a{b="c"d"} 1')
    assert _form("html", "<script>alert(1)</script>")
    assert _form("markdown", "<script>alert(1)</script>")
    assert _form("markdown", "[a](javascript:x)")
    assert not _form("markdown", "```bash\n<script>alert(1)</script>\n```\n")
