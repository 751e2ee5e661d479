"""What an installed torch_npu needs from CANN: read from the ELF files, nothing is imported."""

import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.elf import Elf, NotElf
from ascend_doctor.machine.live import LiveMachine, ProgramMissing

# Runs in the examined interpreter; loads the C library and its companions to find them.
LOCATE = """
import ctypes, importlib.metadata, importlib.util, json, platform, sysconfig
def folder(name):
    spec = importlib.util.find_spec(name)
    return list(spec.submodule_search_locations)[0] if spec else None
for name in ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "librt.so.1"):
    try:
        ctypes.CDLL(name)
    except OSError:
        pass
lines = [line.split(None, 5) for line in open("/proc/self/maps")]
print(json.dumps({
    "folder": folder("torch_npu"), "torch": folder("torch"), "machine": platform.machine(),
    "version": importlib.metadata.version("torch_npu") if folder("torch_npu") else None,
    "mapped": sorted({row[5].strip() for row in lines if len(row) == 6 and row[5].startswith("/")}),
}))
"""
# Operators that torch_npu finds by name in libopapi.so are text constants of its library.
OPERATOR = re.compile(rb"\0(aclnn[A-Z]\w+)(?=\0)")


class TorchNpuWheel(msgspec.Struct, frozen=True, kw_only=True):
    """An installed torch_npu. ``mapped``: files loaded by its interpreter."""

    folder: Path
    torch: Path
    version: str
    machine: str
    mapped: tuple[Path, ...]


class ElfSymbols(msgspec.Struct, frozen=True, kw_only=True):
    """The dynamic symbols of a shared object, or all symbols of a relocatable one."""

    needed: tuple[str, ...]
    defined: frozenset[str]
    undefined: frozenset[str]


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """``libraries``: CANN library -> symbols that it must define. ``operators``: aclnn names."""

    libraries: Mapping[str, frozenset[str]]
    operators: frozenset[str]


def find_wheel(python: Path) -> TorchNpuWheel:
    """The torch_npu of an interpreter. Raises DataError if it is missing."""
    try:
        done = LiveMachine().run([str(python), "-c", LOCATE], deadline=60)
    except ProgramMissing as error:
        raise DataError(
            f"{python}: no interpreter; name the python of an environment with torch_npu"
        ) from error
    if done.exit_code != 0:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise DataError(f"{python}: cannot look for torch_npu: {last}")
    answer = msgspec.json.decode(done.stdout)
    for name in ("torch_npu", "torch"):
        if not answer["folder" if name == "torch_npu" else name]:
            raise DataError(
                f"{name} is not installed for {python}, and the simulated NPU runs the real one; "
                f"to install it: {quote(str(python))} -m pip install 'ascend-doctor[rehearsal]'"
            )
    return TorchNpuWheel(
        folder=Path(answer["folder"]),
        torch=Path(answer["torch"]),
        version=answer["version"],
        machine=answer["machine"],
        mapped=tuple(map(Path, answer["mapped"])),
    )


def read_elf(path: Path) -> ElfSymbols:
    """Symbols of a shared object. Raises DataError for anything else."""
    try:
        with Elf(str(path)) as elf:
            return ElfSymbols(
                needed=tuple(elf.needed),
                defined=frozenset(name.decode() for name in elf.defined()),
                undefined=frozenset(name.decode() for name in elf.undefined()),
            )
    except (OSError, NotElf, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read its symbols: {error}") from error


def needs(wheel: TorchNpuWheel) -> Needs:
    """Symbols that the CANN libraries must define to load every object of the wheel."""
    own = {path.name: read_elf(path) for path in sorted(wheel.folder.rglob("*.so"))}
    around = [*sorted(wheel.torch.glob("lib/*.so*")), *wheel.mapped]
    elsewhere = {
        path.name: read_elf(path) for path in around if path.name not in own and _is_elf(path)
    }
    provided = frozenset().union(*(elf.defined for elf in (*own.values(), *elsewhere.values())))
    libraries: dict[str, set[str]] = {}
    for elf in own.values():
        candidates = _cann_libraries(elf, own, elsewhere)
        for library in candidates:
            libraries.setdefault(library, set())
        if candidates:
            first = "libascendcl.so" if "libascendcl.so" in candidates else candidates[0]
            libraries[first] |= elf.undefined - provided
    return Needs(
        libraries={name: frozenset(symbols) for name, symbols in libraries.items()},
        operators=frozenset().union(*(operators(path) for path in wheel.folder.glob("lib/*.so"))),
    )


def operators(path: Path) -> frozenset[str]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        names = {match.decode() for match in OPERATOR.findall(data)}
    return frozenset(name.removesuffix("GetWorkspaceSize") for name in names)


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _cann_libraries(
    elf: ElfSymbols, own: Mapping[str, ElfSymbols], elsewhere: Mapping[str, ElfSymbols]
) -> list[str]:
    names: list[str] = []
    waiting, seen = list(elf.needed), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if name in own:
            waiting.extend(own[name].needed)
        elif name not in elsewhere and not name.startswith(("libtorch", "libc10", "libpython")):
            names.append(name)
    return sorted(set(names) - _SYSTEM)


# The C library's parts and the compilers' run times: not of CANN.
_SYSTEM = {
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libc.so.6", "libm.so.6", "libstdc++.so.6"),
    *("libgcc_s.so.1", "libgomp.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
}
