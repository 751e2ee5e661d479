"""Compiles the stand-in CANN libraries: our runtime, and stubs for all else the wheel needs."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from ascend_doctor.errors import DoctorError
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.search_path import locate
from ascend_doctor.simulator import stubs
from ascend_doctor.simulator.layout import HOLES_LIBRARY, NODE_LIBRARY
from ascend_doctor.simulator.wheel import Needs, read_elf

SOURCES = Path(__file__).parent / "runtime"
HOST = Path(__file__).parent / "host"
# The files of each library; the rest of the runtime is libascendcl.so.
PARTS = {
    "libopapi.so": ("aclnn",),
    "libascend_hal.so": ("hal",),
    "libhccl.so": (
        *("hccl", "hccl_collectives", "hccl_faults", "hccl_link", "hccl_p2p", "hccl_reduce"),
        "hccl_time",
    ),
}
# Names that torch_npu opens at run time and that only lead to another library of ours.
FORWARDS = {
    "libhcomm.so": "hccl",
    "libacl_op_compiler.so": "ascendcl",
    "libnnopbase.so": "opapi",
    "libruntime.so": "ascendcl",  # which triton-ascend links its driver with
}
FIRST = ("libascendcl.so", "libhccl.so", "libopapi.so")  # the others are linked with these
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-pthread", "-Wall", "-Wextra")
NO_COMPILER = (
    "the simulated NPU is built on this machine and needs a C compiler; none of cc, gcc, clang is "
    "on PATH: apt-get install gcc libc6-dev (Debian, Ubuntu), yum install gcc glibc-devel "
    "(openEuler, CentOS)"
)


class Compiler(msgspec.Struct, frozen=True):
    path: str
    version: str


def find_compiler() -> Compiler:
    """The C compiler on PATH. Raises DoctorError that says how to get one."""
    for name in ("cc", "gcc", "clang"):
        path = locate(name, os.environ)
        if path is not None:
            done = LiveMachine().run([path, "--version"])
            if done.exit_code == 0:
                return Compiler(path, done.stdout.partition("\n")[0])
    raise DoctorError(NO_COMPILER)


def libraries(needs: Needs, compiler: Compiler, folder: Path, *, without: str = "") -> None:
    """Write every library that the wheel needs into the existing ``folder``.

    ``without`` is a function to leave out, as in libraries of an older CANN. Raises DoctorError
    with the compiler's words if it fails.
    """
    extra = (f"-D{without}=sim_lacking_{without}",) if without else ()
    objects = _objects(compiler, folder, extra)
    ours = {name: [objects.pop(part) for part in parts] for name, parts in PARTS.items()}
    ours["libascendcl.so"] = list(objects.values())
    libraries_ = dict(needs.libraries)
    for name in (*ours, *FORWARDS, "libatb.so"):
        libraries_.setdefault(name, frozenset())
    defined = {
        symbol for parts in ours.values() for part in parts for symbol in read_elf(part).defined
    }
    for name in (*FIRST, *sorted(libraries_.keys() - set(FIRST))):
        source = folder / f"{name}.c"
        text = stubs.library(libraries_[name] - defined - {without})
        if name == "libopapi.so":
            text += stubs.kernels(needs.operators - defined)
        source.write_text(text, "utf-8")
        others = (FORWARDS.get(name, "ascendcl"), "ascendcl") if name != FIRST[0] else ()
        _run(
            compiler,
            # Stubs have other types than functions that the compiler knows.
            [*FLAGS, "-fno-builtin", "-w", *extra, "-shared", f"-Wl,-soname,{name}"],
            ["-o", str(folder / name), str(source), *map(str, ours.get(name, ()))],
            # -z defs: an undefined symbol fails here and not in the middle of a run.
            [f"-L{folder}", "-Wl,-rpath,$ORIGIN", "-Wl,-z,defs", "-Wl,--no-as-needed"],
            [f"-l{other}" for other in others],
        )
        source.unlink()
    for path in folder.glob("*.o"):
        path.unlink()
    for name, file in ((NODE_LIBRARY, "node.c"), (HOLES_LIBRARY, "holes.c")):
        _run(compiler, FLAGS, ["-shared", "-o", str(folder / name), str(HOST / file), "-ldl"])


def _objects(compiler: Compiler, folder: Path, extra: Sequence[str]) -> dict[str, Path]:
    made = {path.stem: folder / f"{path.stem}.o" for path in sorted(SOURCES.glob("*.c"))}

    def compile_object(name: str) -> None:
        source = str(SOURCES / f"{name}.c")
        _run(compiler, FLAGS, extra, ["-c", source, "-o", str(made[name])])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_object, made))
    return made


def _run(compiler: Compiler, *arguments: Sequence[str]) -> None:
    flat = [argument for part in arguments for argument in part]
    done = LiveMachine().run([compiler.path, *flat], deadline=120)
    if done.exit_code != 0:
        lines = done.stderr.strip().splitlines()
        raise DoctorError(
            f"{compiler.path} ({compiler.version}) cannot compile the simulated NPU: "
            + "; ".join(lines[:5])
        )
