import contextlib
import struct
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import _core

from ascend_doctor.collect.linking import newest
from ascend_doctor.machine.elf import Elf, NotElf, symbol
from tests.collect.elf_files import functions, shared_object


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    text = functions("first", "second", calls=("outside", "elsewhere"))
    text += "extern int __attribute__((weak)) perhaps(void); int (*p)(void) = perhaps;\n"
    needed = shared_object(folder / "libneeded.so.2", functions("x"))
    return shared_object(folder / "small.so", text, "-Wl,-rpath,$ORIGIN/lib:/opt", needs=(needed,))


def by_elftools(path: Path) -> tuple[set[str], set[str]]:
    """Global names (defined, undefined and not weak), by elftools."""
    defined, undefined = set(), set()
    with path.open("rb") as file:
        for dynamic_symbol in ELFFile(file).get_section_by_name(".dynsym").iter_symbols():
            if dynamic_symbol.entry.st_info.bind == "STB_LOCAL":
                continue
            if dynamic_symbol.entry.st_shndx != "SHN_UNDEF":
                defined.add(dynamic_symbol.name)
            elif dynamic_symbol.entry.st_info.bind == "STB_GLOBAL":
                undefined.add(dynamic_symbol.name)
    return defined, undefined


def check_against_elftools(path: Path) -> None:
    defined, undefined = by_elftools(path)
    invented = {f"{name}_" for name in sorted(defined)[:500]}
    with Elf(str(path)) as elf:
        assert {name.decode() for name in elf.undefined()} == undefined
        expected = [symbol(name.encode()) for name in (*defined, *invented - defined)]
        assert {symbol.name.decode() for symbol in elf.without(expected)} == invented - defined


def test_headers_are_those_that_the_linker_wrote(small: Path) -> None:
    with Elf(str(small)) as elf:
        assert elf.machine in {"x86_64", "aarch64"}
        assert elf.soname == "small.so"
        assert elf.needed == ["libneeded.so.2"]
        assert elf.rpath + elf.runpath == ["$ORIGIN/lib", "/opt"]
        assert set(elf.undefined()) == {b"outside", b"elsewhere"}, "weak ones may stay open"


def test_versions_are_those_that_elftools_reads() -> None:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if ".so" in line and line.split()[-1][0] == "/"}
    seen = 0
    for path in sorted(paths):
        with open(path, "rb") as file, Elf(path) as elf:
            section = ELFFile(file).get_section_by_name(".gnu.version_r")
            versions = (
                [aux.name for _, all_of in section.iter_versions() for aux in all_of]
                if section
                else []
            )
            assert elf.versions == versions, path
            seen += len(versions)
    assert seen, "the interpreter's own libraries need versions"


def test_the_newest_of_each_interface() -> None:
    versions = newest(
        ["GLIBC_2.9", "GLIBC_2.17", "GLIBCXX_3.4.21", "GLIBCXX_3.4", "GLIBC_PRIVATE", "x"]
    )
    assert versions == ("GLIBCXX_3.4.21", "GLIBC_2.17")


@pytest.mark.parametrize("tag", ["--disable-new-dtags", "--enable-new-dtags"])
def test_rpath_and_runpath_are_told_apart(tmp_path: Path, tag: str) -> None:
    path = shared_object(tmp_path / "a.so", functions("a"), f"-Wl,{tag}", "-Wl,-rpath,/opt")
    with Elf(str(path)) as elf:
        assert (elf.rpath, elf.runpath) == ((["/opt"], []) if "disable" in tag else ([], ["/opt"]))


@pytest.mark.slow
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_symbols_are_found_with_every_hash_table(tmp_path: Path, style: str) -> None:
    names = [f"function_{number}" for number in range(300)]
    text = functions(*names, calls=("outside",))
    check_against_elftools(shared_object(tmp_path / "a.so", text, f"-Wl,--hash-style={style}"))


def test_an_object_without_symbols_of_its_own(tmp_path: Path) -> None:
    text = 'extern int outside; __attribute__((visibility("hidden"))) int *p = &outside;'
    check_against_elftools(shared_object(tmp_path / "a.so", text))


def test_the_interpreter_and_what_it_has_loaded_agree_with_elftools() -> None:
    maps = Path("/proc/self/maps").read_text().splitlines()
    files = {Path(line.split(None, 5)[5]) for line in maps if ".so" in line and "/" in line}
    for path in sorted(path for path in {*files, Path(sys.executable).resolve()} if path.is_file())[
        :12
    ]:
        check_against_elftools(path)


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x02\x01" + b"\xff" * 90]
)
def test_another_file_is_no_elf(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.so").write_bytes(content)
    with pytest.raises(NotElf), Elf(str(tmp_path / "a.so")) as elf:
        elf.without([symbol(b"a")])


def read_all(path: Path) -> None:
    with Elf(str(path)) as elf:
        assert isinstance([elf.needed, elf.soname, elf.rpath, elf.runpath, elf.versions], list)
        list(elf.undefined())
        elf.without([symbol(b"first"), symbol(b"absent")])


@pytest.mark.slow
@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(
    small: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(small.read_bytes())
    head = st.integers(0, 1023) | st.integers(0, len(content) - 1)
    for offset in data.draw(st.lists(head, max_size=8)):
        content[offset] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    copy = tmp_path / "damaged.so"
    copy.write_bytes(content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))])
    with contextlib.suppress(NotElf):
        read_all(copy)


def test_a_count_of_versions_that_is_too_large_ends(tmp_path: Path) -> None:
    content = Path(_core.__file__).read_bytes()
    number = struct.pack("<Q", 0x6FFFFFFF)  # DT_VERNEEDNUM
    at = content.index(number) + len(number)
    copy = tmp_path / "many.so"
    copy.write_bytes(content[:at] + struct.pack("<Q", 2**40) + content[at + 8 :])
    with Elf(_core.__file__) as elf, Elf(str(copy)) as damaged:
        assert elf.versions
        assert damaged.versions == elf.versions
