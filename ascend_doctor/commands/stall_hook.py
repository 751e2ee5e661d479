"""What every rank of a watched launch loads first, as ``ascend_stall``: it says where it stands.

Standard library only, any Python 3. In the folder above: ``rank-N.json`` names the process; a
signal has faulthandler append all stacks to ``rank-N.stacks``; from the import of torch on a thread
updates ``rank-N.progress``, and writes the flight recorder to ``hccl_trace_rank_N`` if ``gather-K``
asks for it.
"""

import contextlib
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HOOK = os.path.dirname(os.path.abspath(__file__))
# Unused elsewhere: Slurm and trainers use SIGUSR1 and SIGUSR2, glibc the first two of real time.
_SIGNAL = int(getattr(signal, "SIGRTMIN", 34)) + 11
_POLL = 0.5
# Helpers inherit a rank's variables; the rank comes first.
_MARK = "ASCEND_DOCTOR_STALL_RANK"
# The innermost show where a rank is; a recursion would fill the file twice a second.
_FRAMES = 40
_COLLECTIVES = os.path.join("torch", "distributed", "distributed_c10d.py")


class _Starter:
    """Begins to report when torch is imported; finds no module itself."""

    def __init__(self, rank: str) -> None:
        self._rank = rank
        self._begun = False

    def find_spec(self, name: str, *_: object) -> None:
        # It stays: a finder that removes itself makes the import skip the next one.
        if not self._begun and name.partition(".")[0] in {"torch", "torch_npu"}:
            self._begun = True
            threading.Thread(
                target=_report, args=(self._rank,), daemon=True, name="ascend-doctor"
            ).start()


def _report(rank: str) -> None:
    main = threading.main_thread().ident
    before, answered = None, 0
    while True:
        time.sleep(_POLL)
        with contextlib.suppress(Exception):
            status = _recorder("_dump_hccl_trace_json", includeCollectives=False) or ""
            status = status.decode("utf-8", "replace") if isinstance(status, bytes) else str(status)
            frames = _frames(sys._current_frames().get(main or 0))  # noqa: SLF001 - no other way
            # Write only changes: the file's time says since when nothing moved.
            if (status, frames) != before:
                before = (status, frames)
                text = json.dumps({"time": time.time(), "status": status, "frames": frames})
                _replace(f"rank-{rank}.progress", text.encode())
        with contextlib.suppress(Exception):
            asked = _requests()
            # Numbers grow with each stall, to distinguish this answer from earlier ones.
            if asked > answered:
                answered = asked
                trace = _recorder(
                    "_dump_hccl_trace", includeCollectives=True, includeStackTraces=True
                )
                _replace(f"rank-{rank}.call", json.dumps(_call(main)).encode())
                groups = json.dumps(list(_groups())).encode()
                _replace(f"rank-{rank}.groups", groups)
                if trace:
                    _replace(f"hccl_trace_rank_{rank}", trace)
                # Last: its reader reads the other files at once.
                _replace(f"rank-{rank}.answered", str(asked).encode())


def _groups(only: Any = None) -> "Iterator[dict[str, Any]]":
    """Process groups by the program's names: the recorder has only numbers."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    world: Any = getattr(module, "_world", None)
    for group, name in dict(getattr(world, "pg_names", {})).items():
        if only is not None and group is not only:
            continue
        ranks = sorted(world.pg_group_ranks[group], key=world.pg_group_ranks[group].get)
        yield {"name": name, "title": str(getattr(group, "group_desc", "")), "ranks": ranks}


def _call(main: "int | None") -> "dict[str, Any]":
    """The collective that the main thread is in, if it is in one on the host.

    The first of a group makes its communicator before the recorder hears of it.
    """
    call: dict[str, Any] = {}
    frame = sys._current_frames().get(main or 0)  # noqa: SLF001 - no other way
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_COLLECTIVES) and "group" in code.co_varnames:
            group = frame.f_locals.get("group")
            module = sys.modules["torch.distributed.distributed_c10d"]
            group = group or module._world.default_pg  # noqa: SLF001 - no other way
            call = next(({**row, "operation": code.co_name} for row in _groups(group)), call)
        frame = frame.f_back
    return call


def _recorder(name: str, **options: bool) -> Any:
    """The result of a function in torch_npu's Init.cpp; None if absent or not ready."""
    module = sys.modules.get("torch_npu._C._distributed_c10d") or getattr(
        getattr(sys.modules.get("torch_npu"), "_C", None), "_distributed_c10d", None
    )
    function = getattr(module, name, None)
    return function(**options) if function else None


def _frames(frame: "FrameType | None") -> Any:
    """The innermost frame first."""
    frames: list[tuple[str, int, str]] = []
    while frame is not None and len(frames) < _FRAMES:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return frames


def _requests() -> int:
    with contextlib.suppress(OSError, ValueError), open(os.path.join(_FOLDER, "gather")) as file:
        return int(file.read())
    return 0


def _replace(name: str, data: bytes) -> None:
    path = os.path.join(_FOLDER, name)
    with open(path + ".new", "wb") as file:
        file.write(data)
    # The watch reads at any moment and must never see half a file.
    os.replace(path + ".new", path)


def _arm(rank: str) -> None:
    stacks = os.open(
        os.path.join(_FOLDER, f"rank-{rank}.stacks"),
        # Append: the watch truncates the file before it asks.
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC,
        0o600,
    )
    faulthandler.register(_SIGNAL, file=stacks, all_threads=True)
    identity = {
        "rank": int(rank),
        "local_rank": int(os.environ["LOCAL_RANK"]),
        "world_size": int(os.environ.get("WORLD_SIZE", "0")),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "signal": _SIGNAL,
        "main": f"0x{threading.get_ident():016x}",
        "armed": time.time(),
    }
    _replace(f"rank-{rank}.json", json.dumps(identity).encode())
    sys.meta_path.insert(0, _Starter(rank))


def install() -> None:
    """Arm a rank; torchrun and what ranks start are left alone."""
    rank, local = os.environ.get("RANK", ""), os.environ.get("LOCAL_RANK", "")
    mark = f"{rank}/{local}"
    if rank.isdecimal() and local.isdecimal() and os.environ.get(_MARK) != mark:
        os.environ[_MARK] = mark
        with contextlib.suppress(Exception):
            _arm(rank)
    # The rank's path as without a watch.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HOOK]
