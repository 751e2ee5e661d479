"""Runs one probe to its end or its deadline, and ends all that it started."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.probing.processes import Descendants, Tail, adopting_orphans
from ascend_doctor.probing.records import Record
from ascend_doctor.probing.request import ProbeRequest, Unwatched, Watch, not_started

POLL = 0.05
DUMP_SECONDS = 0.5
END_SECONDS = 1.0
LAUNCHER_BYTES = 64 << 10

# torchrun's summary of the ranks that failed (torch/distributed/elastic/multiprocessing/errors/
# __init__.py, _FAILURE_FORMAT_TEMPLATE); it is the only place that has their exit codes.
_FAILURES = re.compile(
    r"^  rank +: (?P<rank>\d{1,6}) \(local_rank: \d+\)\s*^  exitcode +: (?P<code>-?\d{1,6}) ",
    re.MULTILINE,
)


def launch(request: ProbeRequest, *, watch: Watch | None = None) -> ProbeRun:
    """Run one probe to its end or its deadline, then end all that it started.

    Every new child of this process during the launch counts as the launch's own and is killed
    at its end. A probe that cannot be started is a value of the result.
    """
    watch = watch or Unwatched()
    watch.started(request)
    try:
        with (
            tempfile.TemporaryDirectory(
                prefix="ascend-doctor-", ignore_cleanup_errors=True
            ) as records,
            adopting_orphans(),
            _told_to_end(),
            _Launch(request, records, watch) as running,
        ):
            running.follow()
        run = running.outcome
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        run = not_started(
            request, f"{getattr(error, 'filename', None) or request.python}: {reason}"
        )
    watch.ended(run)
    return run


@contextlib.contextmanager
def _told_to_end() -> Iterator[None]:
    """SIGTERM and SIGHUP (a scheduler, a lost terminal) interrupt like Ctrl-C, and clean up."""
    numbers = [
        one
        for one in (signal.SIGTERM, signal.SIGHUP)
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(one) is signal.SIG_DFL
    ]
    for one in numbers:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one in numbers:
            signal.signal(one, signal.SIG_DFL)


def _environment(request: ProbeRequest, records: str) -> dict[str, str]:
    env = dict(os.environ if request.env is None else request.env)
    # What torchrun and the ranks leave behind goes with the records.
    env["TMPDIR"] = records
    # A probe imports its contract from its own folder.
    env.pop("PYTHONSAFEPATH", None)
    if request.device == "cpu" and request.probe != "inspect-env":
        # torchrun itself imports torch, and with it torch_npu, before any probe runs.
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    if request.torchrun:
        env.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does, with a long warning
    return env


class _Launch:
    """One running launch: its processes, one pipe and one record a rank."""

    def __init__(self, request: ProbeRequest, folder_: str, watch: Watch) -> None:
        self._request = request
        self._watch = watch
        self._folder = folder_
        self._records = [Record(folder_, rank) for rank in range(request.world_size)]
        self._tails = [Tail() for _ in self._records]
        self._launcher = Tail(LAUNCHER_BYTES)
        self._selector = selectors.DefaultSelector()
        self._descendants = Descendants()
        self._timed_out = False
        self._begin = time.time()
        self._start = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self.outcome = not_started(request, "interrupted")

    def __enter__(self) -> _Launch:  # noqa: PYI034 - Self is newer than Python 3.10
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        left_behind: tuple[int, ...] = ()
        silent: dict[int, float | None] = {}
        try:
            now = time.time()
            if self._timed_out:
                silent = {one.rank: one.silent(now) for one in self._records}
                self._dump()
            left_behind = self._end()
        finally:
            self._close()
        self.outcome = self._result(now, silent, left_behind)

    def _open(self) -> None:
        request = self._request
        for record, tail in zip(self._records, self._tails, strict=True):
            path = os.path.join(self._folder, f"rank-{record.rank}.out")
            os.mkfifo(path, 0o600)
            # Open for writing as well, so that the end of one writer is not the end of the pipe.
            self._listen(os.open(path, os.O_RDWR | os.O_NONBLOCK), tail)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._listen(reader, self._launcher)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - argument list, no shell
                [*request.argv, "--records", self._folder, "--deadline", str(request.deadline)],
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                env=_environment(request, self._folder),
                start_new_session=True,
            )
        finally:
            os.close(writer)

    def _listen(self, reader: int, tail: Tail) -> None:
        self._selector.register(reader, selectors.EVENT_READ, tail)

    def follow(self) -> None:
        """Until the launch ends or the deadline passes."""
        assert self._process is not None  # noqa: S101 - set by _open
        end = self._start + self._request.deadline
        next_look = 0.0
        while self._process.poll() is None:
            now = time.monotonic()
            if now >= end:
                self._timed_out = True
                return
            self._drain(POLL)
            if now >= next_look:
                next_look = now + POLL
                self._look()

    def _drain(self, patience: float) -> bool:
        """Read what was printed; whether there was anything."""
        some = False
        for key, _ in self._selector.select(patience):
            with contextlib.suppress(BlockingIOError):
                data = os.read(key.fd, 65536)
                if data:
                    some = True
                    key.data.feed(data)
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
        return some

    def _look(self) -> None:
        for record in self._records:
            for stage, at in record.read():
                self._watch.entered(record.rank, stage, max(at - self._begin, 0.0))

    def _dump(self) -> None:
        """Let every rank write its stacks (faulthandler, in its own file)."""
        self._look()
        for record in self._records:
            if record.pid is not None:
                self._descendants.signal(record.pid, signal.SIGUSR1)
        limit = time.monotonic() + DUMP_SECONDS
        while time.monotonic() < limit:
            self._drain(POLL)

    def _end(self) -> tuple[int, ...]:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
        left_behind = self._descendants.end()
        limit = time.monotonic() + DUMP_SECONDS
        while self._drain(0) and time.monotonic() < limit:
            pass
        self._look()
        return left_behind

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()

    def _result(
        self, now: float, silent: Mapping[int, float | None], left_behind: tuple[int, ...]
    ) -> ProbeRun:
        code = None if self._timed_out or self._process is None else self._process.returncode
        return msgspec.structs.replace(
            not_started(self._request, ""),
            exit_code=code,
            timed_out=self._timed_out,
            ranks=tuple(self._ranks(now, silent, code)),
            missing=tuple(one.rank for one in self._records if not one.started),
            output=self._launcher.last_lines,
            seconds=round(time.monotonic() - self._start, 3),
            left_behind=left_behind,
        )

    def _ranks(
        self, now: float, silent: Mapping[int, float | None], code: int | None
    ) -> Iterable[ProbeResult]:
        codes = {int(m["rank"]): int(m["code"]) for m in _FAILURES.finditer(self._launcher.text)}
        if not self._request.torchrun and code is not None:
            codes = {0: code}
        for record, tail in zip(self._records, self._tails, strict=True):
            if record.started:
                yield msgspec.structs.replace(
                    record.result(now),
                    exit_code=codes.get(record.rank),
                    silent=silent.get(record.rank),
                    output=tail.last_lines,
                )
