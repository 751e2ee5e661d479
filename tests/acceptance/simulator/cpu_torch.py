"""Makes a torch without CUDA of a CUDA wheel, for torch releases whose CPU build is not at hand.

usage: python -m tests.acceptance.simulator.cpu_torch WHEEL SITE_PACKAGES

The libraries for CUDA are left out; what the others want of them is answered by empty stubs, so
no kernel, backend or hook for CUDA is registered, as in a CPU build, and no device is ever counted.
The version is labelled +cpu. torch._C still has the names of its CUDA bindings, and
torch.distributed says that NCCL is there: that much differs from a real CPU build.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elftools.elf.elffile import ELFFile

LEFT_OUT = re.compile(r"torch/(lib/lib(torch_cuda|c10_cuda|torch_nvshmem|caffe2_nvrtc)|test/)")
CUDA = re.compile(r"^Requires-Dist: (nvidia-|cuda-|triton)")
# Every function gives 0; pybind11 reads only a type's name.
STUB = "sim_nothing"
# Functions that give a reference, which torch writes to at load time, and the constructor of a
# default argument, whose type pybind11 of torch 2.14 asks.
SPECIAL = {
    "_ZN4c10d15get_gil_checkerEv": "sim_reference",
    "_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb": "sim_options",
}
# Without these torch.utils.cpp_extension looks for CUDA, and torch 2.14 puts its own kernels over
# CUDA's.
BUILT = {
    "cuda": 'return hasattr(torch._C, "_cuda_getDeviceCount")',
    "backends/cuda": "return torch._C._has_cuda",
}
TYPE = "_ZTIN4c10d16ProcessGroupNCCL7OptionsE"
HEADER = f"""
.text
.globl {STUB}
{STUB}:
 xorl %eax, %eax
 ret
sim_reference:
 leaq sim_zeros(%rip), %rax
 ret
sim_options:
 leaq sim_table(%rip), %rax
 movq %rax, (%rdi)
 ret
.bss
.balign 16
sim_zeros: .zero 4096
.data
.balign 8
.weak {TYPE}
.quad 0, {TYPE}
sim_table:
.rept 64
.quad {STUB}
.endr
.text
"""


class Symbol(NamedTuple):
    """``version``: of a wanted symbol; ``size``: of a defined one."""

    name: str
    kind: str
    size: int = 0
    library: str = ""
    version: str = ""


class Library(NamedTuple):
    needed: list[str]
    undefined: list[Symbol]
    defined: dict[str, Symbol]


def read(path: Path) -> Library:
    with path.open("rb") as file:
        elf = ELFFile(file)
        tags = elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        versions = dict(_versions(elf))
        indexes = elf.get_section_by_name(".gnu.version")
        undefined, defined = [], {}
        for number, row in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            kind = row.entry.st_info.type
            if row.entry.st_shndx != "SHN_UNDEF":
                defined[row.name] = Symbol(row.name, kind, row.entry.st_size)
            elif row.name:
                index = indexes.get_symbol(number)["ndx"] if indexes else 1
                undefined.append(Symbol(row.name, kind, 0, *versions.get(index, ("", ""))))
        return Library([tag.needed for tag in tags], undefined, defined)


def _versions(elf: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    section = elf.get_section_by_name(".gnu.version_r")
    for need, entries in section.iter_versions() if section else ():
        for entry in entries:
            yield entry["vna_other"], (need.name, entry.name)


def assembly(symbols: dict[str, Symbol]) -> str:
    """Stubs of one library: functions share a body, data has its size, types have names."""
    text = [HEADER]
    for name, symbol in sorted(symbols.items()):
        text.append(f".globl {name}\n")
        if name.startswith("_ZTI"):
            text.append(
                f".data\n.balign 8\n{name}:\n .quad _ZTVN10__cxxabiv117__class_type_infoE+16\n"
                f' .quad 1f\n .zero 64\n1: .asciz "{name.removeprefix("_ZTI")}"\n.text\n'
            )
        elif name.startswith("_ZTS"):
            text.append(f'.data\n{name}: .asciz "{name.removeprefix("_ZTS")}"\n.text\n')
        elif symbol.kind == "STT_TLS":
            text.append(
                f'.section .tbss,"awT",@nobits\n{name}: .zero {max(symbol.size, 64)}\n.text\n'
            )
        elif symbol.kind == "STT_OBJECT":
            text.append(f".data\n.balign 16\n{name}: .zero {max(symbol.size, 64)}\n.text\n")
        else:
            text.append(f".set {name}, {SPECIAL.get(name, STUB)}\n")
    text.append('.section .note.GNU-stack,"",@progbits\n')
    return "".join(text)


def build(folder: Path, soname: str, symbols: dict[str, Symbol]) -> None:
    """One stub library; a script defines its symbols' versions."""
    versions = sorted({symbol.version for symbol in symbols.values() if symbol.version})
    with tempfile.TemporaryDirectory() as work:
        source, script = Path(work) / "stubs.s", Path(work) / "versions"
        source.write_text(assembly(symbols))
        blocks = []
        for version in versions:
            names = ";".join(
                symbol.name for symbol in symbols.values() if symbol.version == version
            )
            blocks.append(f"{version} {{ global: {names}; }};\n")
        script.write_text("".join(blocks))
        named = [f"-Wl,--version-script={script}"] if versions else []
        command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", *named, "-lstdc++"]
        subprocess.run([*command, "-o", str(folder / soname), str(source)], check=True)


def stubs(left_out: Path, folder: Path) -> None:
    """Build what a folder's libraries need and lack; ``left_out`` has the wheel's."""
    there = {path.name: read(path) for path in sorted(folder.glob("lib*.so*"))}
    absent = {path.name: read(path) for path in sorted(left_out.rglob("lib*.so*"))}
    named = {name for library in there.values() for name in library.needed if name not in there}
    foreign = sorted(
        name for name in named if name in absent or re.match("libcu|libnv|libnccl", name)
    )
    stub_symbols: defaultdict[str, dict[str, Symbol]] = defaultdict(dict)
    own = set().union(*(library.defined for library in there.values()))
    for library in there.values():
        for symbol in library.undefined:
            home = symbol.library or next(
                (name for name in absent if symbol.name in absent[name].defined), ""
            )
            if symbol.name in own or home not in {*foreign, *absent}:
                continue
            model = absent[home].defined[symbol.name] if home in absent else symbol
            # What left-out libraries load comes with another stub.
            stub = home if home in foreign else foreign[0]
            stub_symbols[stub][symbol.name] = model._replace(version=symbol.version)
    for symbol in _unnamed(there, own, foreign):
        stub_symbols[foreign[0]][symbol.name] = symbol
    for name in foreign:
        build(folder, name, stub_symbols[name])


def _unnamed(there: dict[str, Library], own: set[str], foreign: list[str]) -> Iterator[Symbol]:
    """CUDA functions wanted without a version: any library may have them."""
    if foreign:
        for library in there.values():
            for symbol in library.undefined:
                if (
                    not symbol.library
                    and symbol.name not in own
                    and re.match(r"cu[a-zA-Z]|nv|nccl", symbol.name)
                ):
                    yield symbol


def relabel(site: Path) -> None:
    """Name the installed torch as a CPU build does."""
    version = site / "torch" / "version.py"
    text = version.read_text()
    label = re.search(r"__version__ = '([^'+]+)", text)
    assert label
    number = f"{label[1]}+cpu"
    text = re.sub(r"__version__ = '[^']+'", f"__version__ = '{number}'", text)
    version.write_text(re.sub(r"^cuda(.*)= '.*'$", r"cuda\1= None", text, flags=re.MULTILINE))
    for name, answer in BUILT.items():
        module = site / "torch" / name / "__init__.py"
        assert answer in module.read_text(), module
        module.write_text(module.read_text().replace(answer, "return False"))
    old = next(site.glob("torch-*.dist-info"))
    metadata = (old / "METADATA").read_text()
    lines = [line for line in metadata.splitlines(keepends=True) if not CUDA.match(line)]
    (old / "METADATA").write_text(
        re.sub(r"^Version: .*$", f"Version: {number}", "".join(lines), count=1, flags=re.MULTILINE)
    )
    (old / "RECORD").write_text("")
    old.rename(site / f"torch-{number}.dist-info")


def main() -> None:
    wheel, site = map(Path, sys.argv[1:])
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(dir=site) as left_out:
        for name in archive.namelist():
            archive.extract(name, left_out if LEFT_OUT.match(name) else site)
        for program in (site / "torch" / "bin").iterdir():
            program.chmod(0o755)  # which a zip archive does not keep
        stubs(Path(left_out), site / "torch" / "lib")
    relabel(site)


if __name__ == "__main__":
    main()
