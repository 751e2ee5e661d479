"""Stacks of Python threads as faulthandler, py-spy and torch_npu write them."""

import itertools
import json
from collections.abc import Iterator, Sequence

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.patterns import compile_beside

_IS = compile_beside(__file__)
_QUEUES = frozenset({"_try_get_data", "_worker_loop"})
_STORES = frozenset(
    {"barrier", "monitored_barrier", "all_gather_object", "broadcast_object_list", "gather_object"}
    | {"scatter_object_list", "all_gather", "all_reduce", "broadcast", "send", "recv", "wait"}
    | {"new_group", "init_process_group", "_store_based_barrier", "rendezvous", "synchronize"}
)


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's line of a program; ``line`` is 0 if unknown."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class ThreadStack(msgspec.Struct, frozen=True, kw_only=True):
    """The frames of a thread, the innermost first; ``ident`` may be empty."""

    ident: str
    main: bool
    frames: tuple[Frame, ...]


def parse_faulthandler(text: str, main: str = "") -> tuple[tuple[ThreadStack, ...], ...]:
    """Threads by dump, oldest first. ``main``: its ident, else it is the last: newest go first."""
    dumps: list[list[ThreadStack]] = []
    ident, frames = "", list[Frame]()
    seen: set[str] = set()

    def end() -> None:
        if not ident:
            return
        if not dumps or ident in seen:
            dumps.append([])
            seen.clear()
        seen.add(ident)
        dumps[-1].append(ThreadStack(ident=ident, main=ident == main, frames=tuple(frames)))

    for line in text.splitlines():
        if match := _IS["thread"].match(line):
            end()
            ident, frames = match["ident"], []
        elif ident and (match := _IS["frame"].match(line)):
            number = match["line"]
            frames.append(
                Frame(
                    file=match["file"],
                    line=int(number) if number.isdecimal() else 0,
                    function=match["function"].strip(),
                )
            )
    end()
    return tuple(_with_main(dump) for dump in dumps)


def _with_main(dump: Sequence[ThreadStack]) -> tuple[ThreadStack, ...]:
    if any(thread.main for thread in dump):
        return tuple(dump)
    return (*dump[:-1], msgspec.structs.replace(dump[-1], main=True))


def parse_py_spy(data: bytes | str, name: str) -> tuple[ThreadStack, ...]:
    """What ``py-spy dump --json`` prints. Raises DataError that names it ``name``."""
    try:
        return tuple(
            ThreadStack(
                ident=hex(thread["thread_id"]),
                main=thread.get("thread_name") == "MainThread"
                or (thread.get("os_thread_id") or -1) == thread.get("pid"),
                frames=tuple(
                    Frame(file=frame["filename"], line=int(frame["line"]), function=frame["name"])
                    for frame in thread["frames"]
                ),
            )
            for thread in json.loads(data)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{name}: not what py-spy dump --json prints") from error


def parse_npu_traceback(text: str) -> tuple[ThreadStack, ...]:
    """The file ``<prefix><rank>_py_traceback`` that torch_npu writes beside its recorder's dump."""
    threads: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines():
        if match := _IS["nputhread"].match(line):
            threads.append((match["name"], []))
        elif threads and (match := _IS["npuframe"].match(line)):
            threads[-1][1].append(
                Frame(file=match["file"], line=int(match["line"]), function=match["function"])
            )
    return tuple(
        ThreadStack(ident=name, main="MainThread" in name, frames=tuple(frames[::-1]))
        for name, frames in threads
    )


def main_frames(threads: Sequence[ThreadStack]) -> tuple[Frame, ...]:
    return next((thread.frames for thread in threads if thread.main), ())


def program_frame(frames: Sequence[Frame]) -> Frame | None:
    return next(program_frames(frames), frames[0] if frames else None)


def program_frames(frames: Sequence[Frame]) -> Iterator[Frame]:
    return (frame for frame in frames if not _IS["nottheprogram"].search(frame.file))


def waits_for_device(frames: Sequence[Frame]) -> bool:
    """Whether a thread is in torch_npu, or in a call of torch that waits for other ranks."""
    if loads_data(frames):  # torch_npu wraps the DataLoader
        return False
    for frame in frames:
        if not _IS["nottheprogram"].search(frame.file):
            return False
        if _IS["npu"].search(frame.file) or _IS["waits"].search(frame.file):
            return True
    return False


def is_of_c10d(frame: Frame) -> bool:
    return frame.file.endswith("/distributed_c10d.py") and not frame.function.startswith("_")


def waits_in_python(frame: Frame) -> bool:
    return bool(_IS["pythonwaits"].search(frame.file))


def loads_data(frames: Sequence[Frame]) -> bool:
    library = itertools.takewhile(lambda frame: _IS["nottheprogram"].search(frame.file), frames)
    calls = {
        frame.function.rpartition(".")[2] for frame in library if _IS["data"].search(frame.file)
    }
    return not calls.isdisjoint(_QUEUES)


def waits_in_torch(frames: Sequence[Frame]) -> bool:
    """Whether a thread waits in torch or torch_npu: recorders of NPUs lack gloo and the store."""
    for frame in frames:
        if not _IS["nottheprogram"].search(frame.file):
            return False
        if _IS["waits"].search(frame.file) and frame.function.lstrip("_") in _STORES:
            return True
    return False
