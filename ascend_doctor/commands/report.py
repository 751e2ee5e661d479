"""``ascend-doctor report``: one redacted archive of what a helper needs."""

import io
import itertools
import json
import os
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from ascend_doctor.commands.check import Wish, make_report
from ascend_doctor.commands.options import flag, repeated
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.launch import timeout_option
from ascend_doctor.commands.options.output import Output, file_option
from ascend_doctor.commands.options.target import Examination, add_target_options
from ascend_doctor.diagnosis.attempts import modification_time
from ascend_doctor.diagnosis.logs import files_of
from ascend_doctor.diagnosis.recorder import dump_as_json, is_dump
from ascend_doctor.errors import DataError
from ascend_doctor.findings import Level, show_bytes
from ascend_doctor.language import say
from ascend_doctor.machine import scratch
from ascend_doctor.machine.files import (
    is_there,
    open_regular,
    read_bytes,
    reason,
    why_not_written,
    write_whole,
)
from ascend_doctor.machine.kinds import CONFIGURATION, LOG, SCRIPT
from ascend_doctor.machine.live import DOCTOR, LiveMachine
from ascend_doctor.machine.report_archive import FOLDER, LOGS
from ascend_doctor.redact import Redactor, ours
from ascend_doctor.render.plain import one_line

# A log's end says what happened, its beginning what was started.
_HEAD_BYTES, _TAIL_BYTES = 64 << 10, 1 << 20
_MOST_LOGS = 64
_TEXT_BYTES, _DUMP_BYTES = 32 << 20, 256 << 20
_BYTES = ("utf-8", "surrogateescape")
_SECONDS = 300.0
_CHECKSUM = re.compile(r"\b[\da-f]{64}\b|(?:(?<=commit: )|(?<=tree: ))[\da-f]{40}\b")
_WORDS = re.compile(r"(?=\b([\w-]+))|([^\W_]+)")
# Somebody's prose: all comments but those that a program reads.
_COMMENT = re.compile(r"(?m)(^|\s)#(?!!|SBATCH|BSUB|PBS| ascend-doctor:)[^\n]+")
_CUT = b"\n... left out by ascend-doctor report ...\n"


@dataclass
class Parts:
    """Files of an archive, what was left out and why, and notes on both."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, data: bytes | str) -> None:
        """A file; a second of the same name gets a number."""
        stem, ending = os.path.splitext(name)
        number = 2
        while name in self.files:
            name = f"{stem}-{number}{ending}"
            number += 1
        self.files[name] = data if isinstance(data, bytes) else data.encode(*_BYTES)

    def try_to_add(self, name: str, source: str, read: Callable[[str], str]) -> None:
        """What ``read`` gives of a file that may not be readable."""
        try:
            self.add(name, read(source))
        except OSError as error:
            self.left_out.append((source, reason(error)))
        except DataError as error:
            self.left_out.append((source, str(error).removeprefix(f"{source}: ")))

    def pack(self) -> bytes:
        """A gzipped tar of files without owner."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, data in self.files.items():
                member = tarfile.TarInfo(f"{FOLDER}/{name}")
                member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
                archive.addfile(member, io.BytesIO(data))
        return raw.getvalue()


@click.command("report")
@click.argument("logs", metavar="[LOG|DIR]...", nargs=-1, type=click.Path())
@repeated(
    "--launch",
    "launches",
    metavar="FILE",
    type=InputFile(SCRIPT, CONFIGURATION, LOG),
    help="Launch script or configuration to put in, with what lint says; repeatable.",
)
@file_option("Archive to write.  [default: ascend-doctor-report-TIME.tar.gz]")
@flag("--yes", help="Write without asking.")
@timeout_option("Seconds for the check and the diagnosis.", default=300, whole=True)
@add_target_options
def command(
    examination: Examination,
    *,
    logs: tuple[str, ...],
    launches: tuple[str, ...],
    file: str | None,
    yes: bool,
    timeout: float,
) -> int:
    """Pack what somebody needs who is to help: one redacted archive.

    It holds the check of level 0, and the ends of the LOGs and dumps of recorders with their
    diagnosis. Launch files come with what lint says, and the lock of the stack with --lock. The
    list is shown first, and on a terminal you are asked. `judge`, `diff`, `merge` and `diagnose`
    open it.
    """
    file = file or f"ascend-doctor-report-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz"
    _refuse(logs, launches, file)
    parts = Parts()
    hidden = _add_check(parts, examination, timeout)
    real = _json_of(["diagnose", "--no-redact", "--json", "--", *logs]) if logs else {}
    cleaner = ours(others=real.get("nodes", ()))

    def clean(text: str) -> str:
        return cleaner.apply(hidden.apply(text))

    if logs:
        _add_logs(parts, logs, (hidden, cleaner), clean)
    for each in (hidden, cleaner):
        each.strict, each.whole_lines, each.known = True, True, frozenset()
    for path in launches:
        name = clean(os.path.basename(path))
        parts.try_to_add(
            f"launch/{name}", path, lambda source: clean(_COMMENT.sub(r"\1#", _text(source)))
        )
        _add_answer(parts, f"launch/{name}.lint.txt", ["lint", os.path.abspath(path)], clean)
    if lock := examination.lock:
        hidden.known = cleaner.known = frozenset(
            _CHECKSUM.findall(_text(lock) if is_there(lock) else "")
        )
        parts.try_to_add("ascend-doctor.lock", lock, lambda source: clean(_text(source)))
    parts.add("README.txt", clean(_describe(parts)))
    click.echo(parts.files["README.txt"].decode("utf-8", "replace"), nl=False, err=True)
    if not yes and sys.stdin.isatty() and not click.confirm(say(f"Write {file}?"), err=True):
        return 0
    write_whole(file, parts.pack())
    click.echo(one_line(file))
    return 0


def _refuse(logs: Sequence[str], launches: Sequence[str], file: str) -> None:
    """Raises UsageError for what is not there, before anything is examined."""
    for path in (*logs, *launches):
        if not is_there(path):
            raise click.UsageError(f"{path}: no such file; name the logs and launches to put in")
    if file == "-" or is_there(file):
        raise click.UsageError(f"-o {file}: name a file that does not exist yet")
    if why := why_not_written(file):
        raise click.UsageError(f"-o {file}: {why}; name another file")


def _add_check(parts: Parts, examination: Examination, timeout: float) -> Redactor:
    examination.strict = True
    with scratch.temporary() as folder:
        targets = {"json": f"{folder}/report.json", "html": f"{folder}/index.html"}
        output = Output(
            targets=tuple(targets.items()), fail_on=Level.ERROR, color=False, redact=True,
            verbose=False, quiet=True
        )  # fmt: skip
        wish = Wish(level=0, device="auto", nproc=None, timeout=timeout)
        report = make_report(examination, output, wish, only=(), skip=())
        judged = _json_of(["judge", "--json", targets["json"]])
        answered = [(row["check"], row["level"]) for row in judged.get("findings", ())]
        if answered != [(finding.check, finding.level.value) for finding in report.findings]:
            examination.strict = False
            parts.notes.append("For the verdict, unknown words stayed in the report.")
            output.write(report, examination.redactor(report.snapshot))
        for path in targets.values():
            parts.add(os.path.basename(path), read_bytes(path, _TEXT_BYTES))
    return examination.redactor(report.snapshot)


def _add_logs(
    parts: Parts, logs: Sequence[str], cleaners: Sequence[Redactor], clean: Callable[[str], str]
) -> None:
    """The ends of logs and their diagnosis; names of files first, hidden in texts too.

    Without unknown words, if what is left is diagnosed as the logs are.
    """
    chosen = [*_choose_logs(logs, parts)]
    real = _json_of(["diagnose", "--redact", "--json", "--", *logs])
    cited = frozenset(itertools.chain(*_WORDS.findall(" ".join(_lines_of(real)))))
    no_words, expected = frozenset[str](), _core(real)
    for level, known in ((2, no_words), (2, cited), (1, cited), (0, no_words), (2, no_words)):
        ends, strict = Parts(), level > 0
        for cleaner in cleaners:
            cleaner.strict, cleaner.whole_lines, cleaner.known = strict, level > 1, known
        for path, name in chosen:
            ends.try_to_add(f"{LOGS}/{clean(name)}", path, lambda source: clean(_ends_of(source)))
        with scratch.temporary() as folder:
            packed = f"{folder}/logs.tar.gz"
            write_whole(packed, ends.pack())
            if _core(_json_of(["diagnose", "--json", "--", packed])) == expected:
                break
    else:
        parts.notes.append(
            "diagnosis.txt is of the logs themselves; what is left of them here gives another."
        )
    if not strict:
        parts.notes.append("For the diagnosis, unknown words stayed in the logs.")
    for cleaner in cleaners:
        cleaner.known = no_words
    _add_answer(parts, "diagnosis.txt", ["diagnose", "--redact", "--", *logs], clean)
    parts.add("diagnosis.json", json.dumps(cleaners[-1].apply(real), ensure_ascii=False, indent=1))
    parts.files |= ends.files
    parts.left_out += ends.left_out


def _lines_of(diagnosis: dict[str, Any]) -> Iterator[str]:
    """The lines that a diagnosis stands on."""
    for cause in diagnosis.get("causes", ()):
        yield from (line["text"] for line in cause["evidence"])


def _core(diagnosis: dict[str, Any]) -> tuple[Any, ...]:
    return diagnosis.get("outcome"), [each["id"] for each in diagnosis.get("causes", ())]


def _json_of(words: Sequence[str]) -> dict[str, Any]:
    try:
        answer = json.loads(_answer(words))
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _add_answer(parts: Parts, name: str, words: Sequence[str], clean: Callable[[str], str]) -> None:
    text = _answer(words)
    if text:
        parts.add(name, clean(text))
    else:
        parts.left_out.append((name, f"ascend-doctor {words[0]} gave no answer"))


def _answer(words: Sequence[str]) -> str:
    done = LiveMachine({**os.environ, "COLUMNS": "100"}).run([*DOCTOR, *words], deadline=_SECONDS)
    return done.stdout


def _choose_logs(logs: Sequence[str], parts: Parts) -> Iterator[tuple[str, str]]:
    files = []
    for log in logs:
        beside = os.path.dirname(os.path.abspath(log))
        paths = files_of(log) if os.path.isdir(log) else (log,)
        files += [(path, os.path.relpath(path, beside)) for path in paths]
    newest = sorted(files, key=lambda entry: -modification_time(entry[0]))[:_MOST_LOGS]
    for path, name in files:
        if (path, name) not in newest:
            parts.left_out.append((path, f"more than {_MOST_LOGS} logs"))
        elif _is_readable(path):
            yield path, name
        else:
            parts.left_out.append((path, "not text, so that nothing in it could be hidden"))


def _is_readable(path: str) -> bool:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            head = file.read(_HEAD_BYTES)
            return b"\0" not in head or is_dump(head)
    except OSError:
        return True  # and the reason is told where it is read


def _ends_of(path: str) -> str:
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if is_dump(file.read(_HEAD_BYTES)):
            return dump_as_json(read_bytes(path, _DUMP_BYTES), path)
        file.seek(0)
        if size <= _HEAD_BYTES + _TAIL_BYTES:
            data = file.read(_HEAD_BYTES + _TAIL_BYTES)
        else:
            head = file.read(_HEAD_BYTES).rpartition(b"\n")[0]
            file.seek(size - _TAIL_BYTES)
            data = head + _CUT + file.read(_TAIL_BYTES).partition(b"\n")[2]
    return data.decode(*_BYTES)


def _text(path: str) -> str:
    return read_bytes(path, _TEXT_BYTES).decode(*_BYTES)


def _describe(parts: Parts) -> str:
    rows = [say("An archive of ascend-doctor; unknown words and addresses are pseudonyms:"), ""]
    sizes = {name: show_bytes(len(data)) for name, data in parts.files.items()}
    rows += [f"  {size:>9}  {one_line(name)}" for name, size in sizes.items()]
    if parts.left_out:
        rows += ["", say("Left out:")]
        rows += [f"  {one_line(name)}: {one_line(say(why))}" for name, why in parts.left_out]
    rows += ["", *map(say, parts.notes)] if parts.notes else []
    rows += [
        "",
        say("index.html is the page to begin with. On any machine:"),
        f"  ascend-doctor judge ARCHIVE       {say('the verdict on the machine')}",
        f"  ascend-doctor diagnose ARCHIVE    {say('the cause in the logs')}",
        "",
    ]
    return "\n".join(rows)
