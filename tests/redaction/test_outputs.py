"""Nothing of the labelled corpus stands in anything that is written."""

import json
import os
import re
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from ascend_doctor import cli
from ascend_doctor.commands.kept_launch import run_kept
from ascend_doctor.commands.options.output import Output
from ascend_doctor.commands.options.target import Examination
from ascend_doctor.findings import Level
from ascend_doctor.machine.recorded import ReplayMachine
from ascend_doctor.redact import Redactor, redactor
from ascend_doctor.render.formats import FORMATS
from ascend_doctor.render.formats.json import pretty
from tests.redaction import planted
from tests.redaction.corpus import HOME, LOGIN, Row, healthy, hidden, rows, shows, wrong

ROWS = (*hidden(), *hidden("held_out.yaml"))
LINES = tuple(row.line for row in ROWS)
ENV = {"HOME": HOME, "USER": LOGIN, "PATH": "/usr/bin"}
KEY = b"k" * 16


def leaks(written: str, checked: tuple[Row, ...] = ROWS) -> list[str]:
    """What shows and must not, also if a format broke it with escapes or line ends."""
    joined = re.sub(r"[^A-Za-z0-9]", "", written)
    leaks = []
    for part in {secret for row in checked for secret in row.hidden if len(secret) >= 5}:
        bare = re.sub(r"[^A-Za-z0-9]", "", part)
        if shows(part, written) or (len(bare) >= 10 and bare in joined):
            leaks.append(part)
    return leaks


def ours() -> Redactor:
    facts = planted.facts(LINES)
    return redactor(facts, home=HOME, env=ENV, key=KEY)


def test_the_corpus_is_as_large_as_it_is_called() -> None:
    assert len(ROWS) >= 250
    assert len(rows("hidden.yaml", "secrets")) >= 120
    assert len(healthy()) >= 80


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.line[:40])
def test_what_is_marked_vanishes_and_the_rest_stays(row: Row) -> None:
    assert wrong(row, ours().text(row.line)) == ""
    assert wrong(row, ours().fact(row.line)) == ""


@pytest.mark.parametrize("line", healthy())
def test_healthy_lines_stay_byte_for_byte(line: str) -> None:
    assert ours().text(line) == line
    assert ours().fact(line) == line


@pytest.mark.parametrize("line", LINES[::5])
def test_redacting_twice_changes_nothing_more(line: str) -> None:
    hidden_once = ours()
    text = hidden_once.text(line)
    assert hidden_once.text(text) == text


def test_a_planted_report_leaks_before_it_is_redacted() -> None:
    assert len(leaks(pretty(planted.report(LINES)))) > 250


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FORMATS, "issue"])
def test_no_format_shows_anything(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    output = Output(
        targets=(("markdown" if name == "issue" else name, str(tmp_path / "report")),),
        fail_on=Level.ERROR,
        color=False,
        redact=True,
        verbose=True,
        quiet=True,
        issue=name == "issue",
    )
    output.write(planted.report(LINES), ours())
    written = "".join(path.read_text() for path in tmp_path.glob("*") if path.is_file())
    assert len(written) > 1000
    assert leaks(written) == []


def test_keys_of_mappings_are_cleaned_as_values_are() -> None:
    facts = planted.facts(LINES)
    clean = ours().apply(facts)
    texts = json.dumps(msgspec.to_builtins(clean), ensure_ascii=False)
    assert leaks(texts) == []
    assert len(clean.probes) == len(facts.probes)
    assert all(len(run.ranks[0].stages) == 1 for run in clean.probes)
    assert msgspec.convert(msgspec.to_builtins(clean), type(clean)) == clean


def test_a_recording_shows_nothing(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    (machine / "root/proc").mkdir(parents=True)
    (machine / "root/proc/version").write_text("\n".join(LINES))
    (machine / "root/etc").mkdir()
    (machine / "root/etc/os-release").write_text("ID=openEuler\n" + "\n".join(LINES))
    (machine / "machine.yaml").write_text(
        yaml.safe_dump(
            {
                "origin": "a test",
                "env": {**ENV, "MASTER_ADDR": "head-node-3", "LD_LIBRARY_PATH": LINES[0]},
                "commands": [
                    {"name": name, "stdout": "\n".join(LINES), "stderr": LINES[1]}
                    for name in ("npu-smi info", "npu-smi info -l", "npu-smi info -m")
                ],
                "values": {"host_name": "trainer-17.dc3.acme-train.net", "interfaces": []},
            }
        )
    )
    out = tmp_path / "out"
    Examination(ReplayMachine(machine), record=str(out)).collect()
    written = "".join(
        f"{path.relative_to(out)}\n{path.read_text()}" for path in out.rglob("*") if path.is_file()
    )
    assert "npu-smi info" in written
    assert "ID=openEuler" in written
    assert leaks(written) == []


@pytest.mark.slow
def test_diagnose_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    # Names that only the machine itself knows cannot be known of a log from elsewhere.
    others = [row for row in ROWS if not re.search("trainer-17|mwalker", row.line, re.IGNORECASE)]
    log.write_text(
        "".join(
            f"[rank{number % 8}]: RuntimeError: {line}\n"
            for number, row in enumerate(others)
            for line in row.line.split("\n")[:1]
        )
    )
    for name in FORMATS:
        cli.run(["diagnose", str(log), "--format", name, "-v"])
        written, _ = capsys.readouterr()
        assert "rank" in written or name == "prometheus"
        assert leaks(written, tuple(row for row in others if "\n" not in row.line)) == []


@pytest.mark.slow
def test_merge_and_diff_show_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of nodes are the answer and stay; of other machines only those with a shape go."""
    known = tuple(r for r in ROWS if not re.search("trainer-17|mwalker", r.line, re.IGNORECASE))
    lines = tuple(row.line for row in known)
    report = planted.report(lines)
    for number in range(2):
        changed_report = msgspec.structs.replace(
            report,
            host=f"node-{number}",
            snapshot=planted.facts(lines if number else (*lines[5:], *lines[:5])),
        )
        (tmp_path / f"node-{number}.json").write_text(pretty(changed_report))
    two = [str(tmp_path / f"node-{number}.json") for number in range(2)]
    for name in FORMATS:
        assert cli.run(["merge", *two, "--format", name]) == 1
        assert leaks(capsys.readouterr().out, known) == []
    for name in ("text", "json"):
        assert cli.run(["diff", *two, "--format", name]) == 1
        assert leaks(capsys.readouterr().out, known) == []
    for name in FORMATS:
        assert cli.run(["judge", two[0], "--format", name, "--only", "python-*"]) in {0, 1, 2, 3}
        assert leaks(capsys.readouterr().out, known) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_secrets_are_hidden_whatever_was_asked_for(name: str, tmp_path: Path) -> None:
    secrets = tuple(
        row for file in ("hidden.yaml", "held_out.yaml") for row in rows(file, "secrets")
    )
    output = Output(
        targets=((name, str(tmp_path / "report")),),
        fail_on=Level.ERROR,
        color=False,
        redact=False,
        verbose=True,
        quiet=True,
    )
    output.write(planted.report(tuple(row.line for row in secrets)), ours())
    written = (tmp_path / "report").read_text()
    assert leaks(written, secrets) == []
    assert name not in {"json", "text"} or HOME in written


def test_a_message_about_bad_input_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["judge", "https://robot:hunter2hunter2@example.com/x.json"]) == 2
    output = capsys.readouterr().err
    assert "hunter2" not in output
    assert "example.com/x.json" in output


def test_the_file_of_a_crash_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("USER", LOGIN)
    monkeypatch.setattr(os, "uname", lambda: _Machine)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("\n".join(LINES))

    monkeypatch.setattr(cli.doctor, "main", broken)
    assert cli.run(["check", *LINES]) == 70
    (file,) = tmp_path.glob("ascend-doctor-bug-*.txt")
    assert "Traceback" in file.read_text()
    assert leaks(file.read_text() + capsys.readouterr().err) == []


class _Machine:
    nodename = "trainer-17.dc3.acme-train.net"


def test_the_log_of_a_run_keeps_no_secret(tmp_path: Path) -> None:
    secrets = (*rows("hidden.yaml", "secrets"), *rows("held_out.yaml", "secrets"))
    source, log = tmp_path / "given", tmp_path / "log"
    source.write_bytes(
        "\n".join(row.line for row in secrets).encode() + b"\n\xff\xfe rank on node-17 at /home/x\r"
    )
    code = (
        "import sys,time\n"
        f"data = open({str(source)!r}, 'rb').read()\n"
        "for at in range(0, len(data), 700):\n"
        "    sys.stdout.buffer.write(data[at:at + 700]); sys.stdout.buffer.flush()\n"
    )
    assert run_kept((sys.executable, "-c", code), str(log), {}) == 0
    cleaned = log.read_bytes()
    assert leaks(cleaned.decode("utf-8", "replace"), secrets) == []
    assert cleaned.endswith(b"\n\xff\xfe rank on node-17 at /home/x\r"), "names and bytes stay"
