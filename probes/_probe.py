"""The contract between a probe and whoever started it: arguments, stages, values, the record.

A probe calls ``main(body, name=...)`` before it imports anything else, because MindSpeed parses
sys.argv when it is imported. Standard library only; torch is imported by the body.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import gc
import importlib.util
import json
import math
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn

SCHEMA = 1
# One factor for every limit, on a slow or an emulated machine.
PATIENCE = float(os.environ.get("ASCEND_DOCTOR_PATIENCE") or 1)


def patient(**seconds: float) -> dict[str, float]:
    """Limits by device, as long as they are to be here."""
    return {device: limit * PATIENCE for device, limit in seconds.items()}


def load(name: str, path: str) -> Any:
    """The module of a file, by this name from then on."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - it ends in .py
    assert spec.loader is not None  # noqa: S101
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HERE = os.path.dirname(os.path.abspath(__file__))
# How long to wait for a process.
WAITING = [f"{HERE}/../{folder}machine/waiting.py" for folder in ("", "ascend_doctor/")]
waiting = load("_waiting", next(filter(os.path.exists, WAITING)))
BACKENDS = {"npu": "hccl", "cuda": "nccl", "cpu": "gloo"}
# HCCL cannot report a failed link in under 140 s (HCCL_CONNECT_TIMEOUT of at least 120 s, and 20),
# and torch_npu warns where the group's limit is not above HCCL_EXEC_TIMEOUT
# (hicann/hccl@09300b70:docs/zh/user_guide/hccl_env/HCCL_CONNECT_TIMEOUT.md).
GROUP_SECONDS = patient(npu=200, cuda=200, cpu=60)
HCCL_LIMITS = {"HCCL_CONNECT_TIMEOUT": "120", "HCCL_EXEC_TIMEOUT": "136"}
# What HCCL's AllReduce does not add up, by torch_npu's number of the SoC
# (https://www.hiascend.com/document/detail/zh/CANNCommunityEdition/850/API/hcclapiref/hcclcpp_07_0020.html):
# the first generation has no bfp16, 310P neither bfp16 nor int64.
LACKING = ((range(100, 105), {"bfloat16"}), (range(200, 206), {"bfloat16", "int64"}))
BEAT_SECONDS = 1.0
# A broken device gives thousands; each kept one is a line of the record.
WRONG_KEPT = 20
# linux/include/uapi/linux/prctl.h; Python has no name for it.
PR_SET_PDEATHSIG = 1
# Processes that ranks have started meet over the store of the ranks under this prefix of its keys.
PREFIX = "ASCEND_DOCTOR_STORE_PREFIX"
# What --tp, --pp and so on ask for.
SIZES = ("tp", "pp", "cp", "ep", "etp")
# Told on stdout in front of what a probe prints that shares its process with others.
MARK = b"\0ascend-doctor probe "


class Skip(Exception):  # noqa: N818 - a probe without a subject is a result
    """The probe has no subject here; the message names the missing precondition."""


class Nodes(NamedTuple):
    """The nodes of a probe that runs once on each of them, and where they meet.

    ``rank`` is the number of this one, ``local`` how many ranks each has.
    """

    count: int = 1
    rank: int = 0
    address: str = ""
    port: int = 0
    local: int = 1


class Probe:
    """One rank of one probe. Stages are flat: a name is entered, and the next one ends it.

    ``asked`` are the parallel sizes that the user asks for, by name; empty where nothing is asked.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name = name
        self.device = options.device
        self.asked: dict[str, int] = {
            name: size for name in SIZES if (size := getattr(options, name, None)) is not None
        }
        self.minutes: float = getattr(options, "minutes", 0.0)
        # By which sizes are chosen: a simulated device is a CPU.
        self.strength = "cpu" if getattr(options, "small", False) else self.device
        self.nodes = nodes_of(options)
        self.rank = rank_of()
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.alone = options.records is None
        self.values: dict[str, Any] = {}
        self.wrong: list[str] = []
        self.stage_name = ""
        self._compared = 0
        self._start: float = time.monotonic()
        self._wait = waiting.Deadline(options.deadline, os.getpid())
        self._closers: list[Callable[[], Any]] = []
        self._fault = fault_of(self.rank)
        self._record: Any = None
        if not self.alone:
            self._attach(options.records, options.deadline)
        self._event(
            "start",
            schema=SCHEMA,
            probe=name,
            rank=self.rank,
            world_size=self.world_size,
            host=socket.gethostname(),
            pid=os.getpid(),
        )

    def _attach(self, folder: str, deadline: float) -> None:
        """Dump stacks beside the record, and end some time after the deadline."""
        base = os.path.join(folder, f"rank-{self.rank}")
        # Both stay open for the handlers of signals, and for a thread.
        self._stacks = open(f"{base}.stack", "w")  # noqa: SIM115
        faulthandler.enable(self._stacks)
        faulthandler.register(signal.SIGUSR1, self._stacks)
        # torchrun ends ranks so. The handler that was there comes after, so that the rank still
        # ends.
        faulthandler.register(signal.SIGTERM, self._stacks, chain=True)
        # The last resort should the doctor have been killed.
        deadline *= waiting.MOST_STRETCH
        faulthandler.dump_traceback_later(deadline + 10, exit=True, file=self._stacks)
        self._record = open(f"{base}.jsonl", "w", buffering=1, encoding="utf-8")  # noqa: SIM115
        alive.append(self._record.name)

    def _event(self, kind: str, **fields: Any) -> None:
        if self._record is not None:
            line = {"event": kind, "time": time.time(), **plain(fields)}
            self._record.write(json.dumps(line, default=str) + "\n")

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name what comes next; it is written at once, so that a hang can be placed."""
        self.stage_name = name
        self._event("stage", name=name)
        fail_on_purpose(self._fault, name)
        yield

    def measure(self, key: str, value: Any) -> None:
        """Keep a measurement (anything that JSON can hold)."""
        self.values[key] = value
        self._event("value", key=key, value=value)

    def expect(self, what: str, got: Any, expected: Any) -> None:
        """Compare exactly; a difference is recorded, not raised."""
        self._compared += 1
        if got != expected:
            self.wrong.append(what)
            if len(self.wrong) <= WRONG_KEPT:
                difference = {"what": what, "got": str(got)[:200], "wanted": str(expected)[:200]}
                self._event("wrong", **difference)

    def skip(self, reason: str) -> NoReturn:
        """End the probe: a precondition is absent."""
        raise Skip(reason)

    def left(self) -> float:
        """Seconds until the deadline."""
        return float(self._wait.time_left())

    def torch(self) -> Any:
        """Torch with this rank's device set. Never falls back to another device."""
        with self.stage("import"):
            torch = import_torch(self.device)
        with self.stage("device"):
            if self.device != "cpu":
                accelerator = getattr(torch, self.device)
                count = accelerator.device_count()
                self.measure("device_count", count)
                if self.local_rank >= count:
                    raise RuntimeError(
                        f"no device for local rank {self.local_rank}: {count} {self.device} visible"
                    )
                # Before any collective: without it object tensors of all ranks go to device 0.
                accelerator.set_device(self.local_rank)
        return torch

    def torch_device(self) -> str:
        """The device string for tensors of this rank."""
        return "cpu" if self.device == "cpu" else f"{self.device}:{self.local_rank}"

    def synchronise(self, torch: Any) -> None:
        """Deadline for the device: on accelerators calls only enqueue."""
        if self.device != "cpu":
            getattr(torch, self.device).synchronize()

    def join(self) -> Any:
        """torch.distributed with the world's group; it is taken down after the record."""
        import torch.distributed as dist

        if self.device == "npu":
            for name, value in HCCL_LIMITS.items():
                # What the user has set is tried as it is.
                os.environ.setdefault(name, value)
        with self.stage("rendezvous"):
            if dist.is_initialized():
                # Probes that share a process share the group; all must have come this far.
                dist.barrier()
                return dist
            limit = timedelta(seconds=GROUP_SECONDS[self.device])
            dist.init_process_group(BACKENDS[self.device], timeout=limit, **self._meeting(dist))
            self._await_all(dist, limit)
        self._closers.append(dist.destroy_process_group)
        # A rank that leaves first makes the take-down of the others fail.
        self._closers.append(dist.barrier)
        return dist

    def _await_all(self, dist: Any, limit: timedelta) -> None:
        """Nobody goes on alone: a rank that fails at once would end the others in what is before.

        HCCL and NCCL only meet in the first collective.
        """
        inner = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - torch has no other
        store = dist.PrefixStore("ascend-doctor/joined", inner)
        if store.add("ranks", 1) == self.world_size:
            store.set("all", "1")
        store.wait(["all"], limit)

    def _meeting(self, dist: Any) -> dict[str, Any]:
        """Where the ranks meet, if it is not where the launcher says."""
        if "MASTER_ADDR" not in os.environ:
            # Started by hand, without torchrun.
            return {"store": store_of(dist), "rank": 0, "world_size": 1}
        if PREFIX not in os.environ:
            return {}
        ranks = {"rank": self.rank, "world_size": self.world_size}
        return {"store": dist.PrefixStore(os.environ[PREFIX], store_of(dist)), **ranks}

    def run(self, body: Callable[[Probe], None]) -> bool:
        """Run the body and write the result. Whether it came to its end."""
        fields: dict[str, Any] = {"ok": True}
        try:
            fail_on_purpose(self._fault, "start")
            body(self)
        except Skip as reason:
            fields = {"ok": True, "skipped": str(reason) or "no reason given"}
        except BaseException as error:  # noqa: BLE001 - SystemExit of a library is a result, too
            fields = {"ok": False, "error": innermost(error), "traceback": _traceback(error)}
        seconds = time.monotonic() - self._start
        self._event("end", compared=self._compared, seconds=seconds, **fields)
        if self.alone:
            print(self._line(fields, seconds), flush=True)
        return bool(fields["ok"])

    def hand_on(self, other: Probe) -> None:
        """Let the next probe of this process take down what this one has set up."""
        other._closers += self._closers
        self._closers = []

    def take_down(self) -> None:
        """Leave the group, after the result is safe."""
        if not self._closers:
            return
        with self.stage("teardown"):
            start = time.monotonic()
            try:
                for close in reversed(self._closers):
                    close()
            except Exception as error:  # noqa: BLE001 - the result is safe already
                self.measure("teardown_error", innermost(error))
            self.measure("teardown_s", time.monotonic() - start)

    def _line(self, fields: dict[str, Any], seconds: float) -> str:
        outcome = "ok"
        if fields.get("skipped"):
            outcome = f"skipped: {fields['skipped']}"
        elif not fields["ok"]:
            outcome = f"FAILED in {self.stage_name}: {fields['error']}"
        elif self.wrong:
            outcome = f"WRONG: {'; '.join(self.wrong[:5])}"
        values = json.dumps(plain(self.values), default=str)
        where = f"rank {self.rank}/{self.world_size} on {self.device}"
        return f"{self.name} {where} {seconds:.2f} s {outcome}\n  {values}"

    def tampers(self, stage: str) -> bool:
        """Whether a test asks this rank to spoil a value in this stage."""
        return self._fault.get("do") == "value" and stage.startswith(self._fault["stage"])


def fail_on_purpose(fault: dict[str, str], stage: str) -> None:
    """Do what a test asks for in this stage."""
    act = fault.get("do")
    if act is None or not stage.startswith(fault["stage"]):
        return
    if act == "hang":
        time.sleep(1 << 20)
    elif act == "exit":
        os._exit(int(fault.get("code", "3")))
    elif act in {"segv", "kill", "stop"}:
        os.kill(os.getpid(), getattr(signal, f"SIG{act.upper()}"))
    elif act == "raise":
        raise RuntimeError(f"on purpose in {stage}")
    elif act == "spam":
        for _ in range(1 << 10):
            os.write(1, b"spam \x1b[31m[red] " * 4096)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """No search for garbage among a million objects that stay; it took a fifth of the import."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def import_torch(device: str) -> Any:
    """Torch, with torch_npu for NPUs and without it on the CPU."""
    if device == "cpu":
        # From 2.5 on `import torch` imports torch_npu, too (pytorch/pytorch#127074).
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    with importing():
        import torch

        if device == "npu":
            import torch_npu  # noqa: F401 - registers torch.npu
    return torch


def lacking(device: str) -> set[str]:
    """Names of the dtypes that the backend of this device does not add up."""
    if device != "npu":
        return set()
    from torch_npu.npu.utils import get_soc_version

    number = get_soc_version()
    return {lacked for numbers, names in LACKING if number in numbers for lacked in names}


def fault_of(rank: int) -> dict[str, str]:
    """What tests ask for: ASCEND_DOCTOR_PROBE_FAULT="rank=1,stage=sum,do=hang"."""
    text = os.environ.get("ASCEND_DOCTOR_PROBE_FAULT", "")
    fields = dict(word.split("=", 1) for word in text.split(",") if "=" in word)
    if fields.get("rank") != str(rank):
        return {}
    if fields.get("do") == "absent":
        time.sleep(1 << 20)
    return {"stage": "", **fields}


def fork() -> int:
    """Python 3.12 warns of other threads: the one that shows signs of life holds no lock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def store_of(dist: Any) -> Any:
    """The store of the launcher; a rank that is alone has no address to meet at."""
    if "MASTER_ADDR" not in os.environ:
        return dist.HashStore()
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(address, port, is_master=False)


def die_with_parent() -> None:
    """Let the kernel end this process as soon as its parent is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# The records of this process; the last one is being written.
alive: list[str] = []


def attach(folder: str, rank: int) -> None:
    """Print into the pipe of this rank, die with the parent, and show signs of life."""
    connect(folder, rank)
    threading.Thread(target=_beat, daemon=True).start()


def connect(folder: str, rank: int) -> None:
    """Print into the pipe of this rank, and die with the parent; no thread is started."""
    die_with_parent()
    with contextlib.suppress(FileNotFoundError):
        pipe = os.open(os.path.join(folder, f"rank-{rank}.out"), os.O_WRONLY)
        # Not sys.stdout alone: CANN and the libraries in C write to the descriptors.
        os.dup2(pipe, 1)
        os.dup2(pipe, 2)
        os.close(pipe)


def _beat() -> None:
    """The record's time stamp tells a rank that waits from one that is stopped.

    A pipe that nobody reads any more says that the doctor was killed; the rank goes, too.
    """
    output = select.poll()
    output.register(1, 0)
    while not output.poll(BEAT_SECONDS * 1000):
        with contextlib.suppress(OSError, IndexError):
            os.utime(alive[-1])
    os.kill(os.getpid(), signal.SIGKILL)


def plain(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def innermost(error: BaseException) -> str:
    """The first cause of an exception as "Type: text"; what wraps it is seldom the reason."""
    seen: list[BaseException] = []
    inner: BaseException | None = error
    while inner is not None and inner not in seen:
        seen.append(inner)
        # As Python prints it: `raise ... from None` hides what came before.
        inner = inner.__cause__ or (None if inner.__suppress_context__ else inner.__context__)
    error = seen[-1]
    return f"{type(error).__name__}: {error}"[:4000]


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-8000:]


def leave_folder() -> None:
    """Take the folder of the probes off sys.path.

    A probe that carries the name of a package would hide it.
    """
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != HERE]


def neighbour(name: str) -> Any:
    """A module of this folder that imports torch, once ``main`` has begun."""
    if name in sys.modules:
        return sys.modules[name]
    return load(name, f"{HERE}/{name}.py")


def main(body: Callable[[Probe], None], *, name: str) -> None:
    """Take the arguments away from sys.argv, run ``body(probe)`` and exit.

    A probe imports its neighbours before this and everything else after it.
    """
    leave_folder()
    parser = parser_of(name, (body.__doc__ or "").strip())
    parser.add_argument("--deadline", type=float, default=300.0, metavar="SECONDS")
    options = parser.parse_args()
    sys.argv[1:] = []
    if options.nnodes is not None:
        # Whatever a launcher has left in the environment, it is the one process of its node.
        os.environ.update(RANK=str(options.node_rank), WORLD_SIZE=str(options.nnodes))
        os.environ["LOCAL_RANK"] = "0"
    if options.records is not None:
        attach(options.records, rank_of())
    probe = Probe(name, options)
    ok = probe.run(body)
    if ok:
        probe.take_down()
    # The doctor reads wrong values in the record; by hand the exit code has to tell them.
    leave(ok=ok and not (probe.alone and probe.wrong))


def parser_of(name: str, description: str) -> argparse.ArgumentParser:
    """The arguments that all probes take."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--device", choices=sorted(BACKENDS), default="npu")
    parser.add_argument("--records", metavar="DIR", help="write one record a rank into this folder")
    for size in SIZES:
        parser.add_argument(f"--{size}", type=int, metavar="N", help="of the layout to try")
    parser.add_argument("--small", action="store_true", help="small sizes, as on the CPU")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to soak")
    # Of probes that run once on every node; they are called as torchrun calls them.
    parser.add_argument("--nnodes", type=int, metavar="N", help="nodes that take part")
    parser.add_argument("--node-rank", type=int, default=0, metavar="R", help="number of this one")
    parser.add_argument("--rdzv-endpoint", default="", metavar="HOST:PORT", help="where they meet")
    parser.add_argument("--nproc-per-node", type=int, default=1, metavar="N", help="ranks of each")
    return parser


def nodes_of(options: argparse.Namespace) -> Nodes:
    """What was given about nodes."""
    if getattr(options, "nnodes", None) is None:
        return Nodes()
    address, _, port = options.rdzv_endpoint.rpartition(":")
    return Nodes(
        options.nnodes,
        options.node_rank,
        address.strip("[]"),
        int(port or "0"),
        options.nproc_per_node,
    )


def rank_of() -> int:
    return int(os.environ.get("RANK", "0"))


def leave(*, ok: bool) -> None:
    """End the process, with exit code 1 should it not be well."""
    sys.stdout.flush()
    sys.stderr.flush()
    if not ok:
        # The exit handlers of a broken accelerator may hang, and the record is written.
        os._exit(1)
