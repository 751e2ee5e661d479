import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.simulator import Tree, build, stubs
from ascend_doctor.simulator import compile as compiling
from ascend_doctor.simulator.ledger import new_ledger
from ascend_doctor.simulator.wheel import find_wheel, needs, operators, read_elf
from tests.programs import run_program
from tests.simulator.fidelity import cann_symbols

RUNTIME = Path(compiling.__file__).parent / "runtime"
Library = Callable[..., Path]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Compile C text into a shared object."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")

    def make(name: str, text: str, *arguments: str) -> Path:
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        target = tmp_path / name
        subprocess.run(
            [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", target, source, *arguments],
            check=True,
        )
        return target

    return make


def test_symbols_of_a_shared_object(library: Library, tmp_path: Path) -> None:
    library("libother.so", "int there;")
    made = library(
        "libmine.so",
        "extern int away(void); extern int maybe(void) __attribute__((weak));"
        'const char *const text = "aclnnMul"; const char *const half = "aclnnMulGetWorkspaceSize";'
        "static int hidden(void) { return away(); } int shown(void) { return hidden() + maybe(); }",
        f"-L{tmp_path}",
        "-Wl,--no-as-needed",
        "-lother",
    )
    elf_symbols = read_elf(made)
    assert "libother.so" in elf_symbols.needed
    assert "shown" in elf_symbols.defined
    assert "hidden" not in elf_symbols.defined
    assert "away" in elf_symbols.undefined
    assert "maybe" not in elf_symbols.undefined
    assert operators(made) == {"aclnnMul"}


def test_symbols_of_what_a_compiler_leaves(library: Library) -> None:
    made = library("part.o", "int away(void); int shown(void) { return away(); }", "-c")
    symbols = read_elf(made)
    assert "shown" in symbols.defined
    assert "away" in symbols.undefined
    assert symbols.needed == ()


def test_what_is_no_elf_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("no ELF")
    with pytest.raises(DataError, match=r"text\.so"):
        read_elf(path)


def test_stubs_fail_and_say_their_name() -> None:
    text = stubs.library(
        {"aclFoo", "_ZTVN3atb3FooE", "_ZN2ge7Session8RunGraphEv", "_ZN2ge5GraphC1Ev"}
    )
    assert 'return sim_not_simulated("aclFoo")' in text
    assert "void *_ZTVN3atb3FooE[64]" in text
    assert re.search(r"unsigned _ZN2ge7Session8RunGraphEv.*return 0xffffffffU", text)
    assert re.search(r"void \*_ZN2ge5GraphC1Ev.*return NULL", text)


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DoctorError, match=r"apt-get install gcc.*yum install gcc"):
        compiling.find_compiler()


def test_without_torch_npu_it_says_what_to_install(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(made, check=True, timeout=120)
    with pytest.raises(DataError, match=r"pip install 'ascend-doctor\[rehearsal\]'"):
        find_wheel(tmp_path / "venv" / "bin" / "python")


def test_what_is_no_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no interpreter"):
        find_wheel(tmp_path / "python")


def test_ledgers_of_dead_machines_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old, fresh, used = new_ledger(), new_ledger(), new_ledger()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for path, pid in ((old, dead.pid), (fresh, dead.pid), (used, os.getpid())):
        path.write_bytes(pid.to_bytes(8, sys.byteorder) + (7).to_bytes(8, sys.byteorder))
    os.utime(old, (0, 0))
    os.utime(used, (0, 0))
    new_ledger()
    assert not old.exists()
    assert fresh.exists()
    assert used.exists()


@pytest.mark.parametrize("trap", ["link", "open", "foreign"])
def test_a_folder_that_another_user_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"ascend-simulator-{os.getuid()}"
    if trap == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to("elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777 if trap == "open" else 0o700)
    if trap == "foreign":
        if os.geteuid():
            pytest.skip("needs root")
        os.chown(folder, 12345, 12345)
    made = new_ledger()
    assert folder not in made.parents
    assert made.parent.lstat().st_mode & 0o777 == 0o700
    assert not list(folder.iterdir())


_LEDGER_ALONE = """
#include "simulator.h"
#include <stdlib.h>
const sim_settings *sim_config(void) { static sim_settings all = {.memory = 1 << 20}; return &all; }
const sim_fault *sim_fault_due(const char *kind, int device) { return NULL; }
double sim_fault_number(const sim_fault *fault, const char *key, double other) { return other; }
bool sim_ledger_take(int device, uint64_t bytes);
int main(void) { _exit(!sim_ledger_take(0, 4096)); }
"""


@pytest.mark.slow
@pytest.mark.parametrize("trap", ["none", "link", "second name", "open", "foreign", "pipe"])
def test_a_ledger_is_a_file_of_this_user_alone(tmp_path: Path, trap: str) -> None:
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (tmp_path / "alone.c").write_text(f"#include <unistd.h>\n{_LEDGER_ALONE}")
    sources = [str(tmp_path / "alone.c"), str(RUNTIME / "ledger.c")]
    subprocess.run(
        [compiler, "-pthread", "-I", RUNTIME, "-o", tmp_path / "alone", *sources], check=True
    )
    victim, ledger = tmp_path / "victim", tmp_path / "x.ledger"
    victim.write_text("precious")
    if trap == "link":
        ledger.symlink_to(victim)
    elif trap == "second name":
        ledger.hardlink_to(victim)
    elif trap == "pipe":
        os.mkfifo(ledger)
    elif trap in {"open", "foreign"}:
        ledger.write_text("precious")
        ledger.chmod(0o666 if trap == "open" else 0o600)
    if trap == "foreign":
        if os.geteuid():
            pytest.skip("needs root")
        os.chown(ledger, 12345, 12345)
    env = {**os.environ, "ASCEND_SIMULATOR_LEDGER": str(ledger)}
    done = subprocess.run([tmp_path / "alone"], check=False, env=env, timeout=60)
    assert done.returncode == 0  # it accounts for itself then
    assert victim.read_text() == "precious"
    if trap in {"open", "foreign"}:
        assert ledger.read_text() == "precious"
    if trap == "none":
        assert ledger.stat().st_size > 1024


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_libraries_that_others_could_write_are_not_used(
    tmp_path: Path, examined_python: Path
) -> None:
    for name, change in (("foreign", (12345, 0o755)), ("open", (0, 0o777))):
        cache = tmp_path / name
        cache.mkdir()
        os.chown(cache, change[0], 0)
        cache.chmod(change[1])
        with pytest.raises(DoctorError, match="others can write it"):
            build(examined_python, cache=cache)


# With an installed torch_npu.


def test_every_symbol_of_the_wheel_is_there(examined_python: Path, built: Tree) -> None:
    wheel = find_wheel(examined_python)
    ours = {path.name: read_elf(path) for path in (built.home / "lib64").glob("*.so")}
    needed = needs(wheel).libraries
    assert needed.keys() <= ours.keys()
    defined = frozenset().union(*(library.defined for library in ours.values()))
    assert frozenset().union(*needed.values()) <= defined


def test_the_names_of_cann_tell_its_symbols(examined_python: Path) -> None:
    wheel = find_wheel(examined_python)
    assert cann_symbols(wheel.folder) == frozenset().union(*needs(wheel).libraries.values())


def test_the_second_build_is_the_first(
    built: Tree, examined_python: Path, simulator_cache: Path
) -> None:
    before = (built.home / "lib64" / "libascendcl.so").stat().st_mtime_ns
    again = build(examined_python, cache=simulator_cache)
    assert again == built
    assert (again.home / "lib64" / "libascendcl.so").stat().st_mtime_ns == before


def test_builds_at_the_same_time_make_one_tree(examined_python: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with ThreadPoolExecutor(3) as pool:
        trees = set(pool.map(lambda _: build(examined_python, cache=cache).root, range(3)))
    assert [path for path in cache.iterdir() if path.is_dir()] == list(trees)


def test_a_build_that_fails_leaves_nothing(
    examined_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    compiler = folder / "cc"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho no disk >&2; exit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    with pytest.raises(DoctorError, match="no disk"):
        build(examined_python, cache=tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_the_tree_says_that_it_is_simulated(built: Tree) -> None:
    home = built.home
    info = next(home.glob("*-linux/ascend_toolkit_install.info")).read_text()
    assert "version=9.1.0\n" in info
    assert "innerversion=simulated\n" in info
    assert f"path={home}" in info
    assert "not CANN" in (home / "SIMULATED").read_text()
    assert (built.root / "cann").resolve() == home
    assert "Version=9.1.0\nversion_dir=cann\n" in (home / "runtime" / "version.info").read_text()


def test_set_env_gives_what_the_environment_gives(built: Tree) -> None:
    environment = built.environment({}, soc="Ascend910B3", devices=8, memory_bytes=1)
    script = f"source {built.root}/cann/set_env.sh; env"
    done = run_program(["bash", "-c", script], env={"PATH": "/bin:/usr/bin"})
    sourced = dict(line.split("=", 1) for line in done.stdout.splitlines())
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH", "PYTHONPATH"):
        assert os.path.realpath(sourced[name]) == os.path.realpath(environment[name])


def test_the_environment_puts_the_tree_first_and_keeps_the_rest(built: Tree) -> None:
    base = {
        "LD_LIBRARY_PATH": "/mine",
        "PYTHONPATH": "/my",
        "HOME": "/h",
        "ASCEND_SIMULATOR_SOC": "x",
    }
    env = built.environment(
        base, soc="Ascend910_9392", devices=16, memory_bytes=5, faults=("a", "b c=1")
    )
    assert env["LD_LIBRARY_PATH"] == f"{built.home}/lib64:/mine"
    assert env["PYTHONPATH"] == f"{built.home}/python/site-packages:/my"
    assert env["HOME"] == "/h"
    assert env["ASCEND_SIMULATOR_SOC"] == "Ascend910_9392"
    assert env["ASCEND_SIMULATOR_FAULTS"] == "a;b c=1"
    assert int(env["ASCEND_SIMULATOR_CUBE_CORES"]) > 0


def test_a_soc_that_is_not_in_the_matrix_is_refused(built: Tree) -> None:
    with pytest.raises(DataError, match="Ascend910B3"):
        built.environment({}, soc="Ascend1", devices=1, memory_bytes=1)


PROTOTYPE = re.compile(
    r"^((?:aclError|HcclResult|const char \*|void|size_t|uint32_t|aclTensorDesc \*|aclDataBuffer \*"
    r"|aclopAttr \*|void \*|aclDataType|aclFormat)\s*(?:acl|Hccl)\w+\([^{};]*\)) \{$",
    re.MULTILINE,
)


def test_our_functions_have_the_signatures_of_the_headers(
    examined_python: Path, tmp_path: Path
) -> None:
    """The wheel's headers and our prototypes in one C++ file: a difference does not compile."""
    compiler = shutil.which("c++") or pytest.skip("no C++ compiler")
    include = find_wheel(examined_python).folder / "include"
    acl = include / "third_party/acl/inc"
    text = "".join(path.read_text() for path in sorted(RUNTIME.glob("*.c")) if path.stem != "aclnn")
    prototypes = [match[0] for match in PROTOTYPE.finditer(text)]
    assert len(prototypes) > 120
    source = tmp_path / "prototypes.cpp"
    lines = [prototype.removesuffix(" {") + ";" for prototype in prototypes]
    source.write_text(
        '#include "acl/acl.h"\n#include "acl/acl_op_compiler.h"\n'
        '#include "third_party/hccl/inc/hccl/hccl.h"\nextern "C" {\n' + "\n".join(lines) + "\n}\n"
    )
    done = run_program(
        [compiler, "-fsyntax-only", "-w", f"-I{acl}", f"-I{include}", str(source)], check=False
    )
    assert done.returncode == 0, done.stderr
