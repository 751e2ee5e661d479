import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from ascend_doctor.collect import native as native_module
from ascend_doctor.collect.cann import cann
from ascend_doctor.collect.linking import Linker
from ascend_doctor.collect.native import native, owner
from ascend_doctor.collect.python import python
from ascend_doctor.facts import Native, Python
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import RecordingMachine, ReplayMachine
from ascend_doctor.simulator import build
from tests.checks.machine import LIBRARIES
from tests.collect.elf_files import functions, shared_object
from tests.present import present
from tests.programs import run_program

CANN = ("aclInit", "HcclBroadcast")
TORCH = ("_ZN2at5emptyEv", "THPVariable_Wrap")


def environment(
    root: Path, *, torch: Sequence[str] = TORCH, cann: Sequence[str] = CANN, atb: bool = True
) -> Python:
    """torch and torch_npu like the wheels, CANN in ``root/cann``."""
    site = root / "site"
    for name in ("torch", "torch_npu"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("raise SystemExit('imported')")
    cpu = shared_object(site / "torch" / "lib" / "libtorch_cpu.so", functions(*torch))
    acl = shared_object(root / "cann" / "libascendcl.so", functions(*cann))
    libatb = shared_object(root / "atb" / "libatb.so", functions("_ZN3atb3runEv"))
    if not atb:
        libatb.unlink()
        libatb = shared_object(root / "build" / "libatb.so", "")
    inside = ("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/lib:$ORIGIN")
    own = site / "torch_npu" / "lib"
    npu = shared_object(
        own / "libtorch_npu.so",
        functions("npu", calls=(*CANN, *TORCH, "PyList_New")),
        *inside,
        needs=(acl, cpu),
    )
    shared_object(
        site / "torch_npu" / "_C.cpython-311-x86_64-linux-gnu.so",
        functions("PyInit__C", calls=("npu",)),
        *inside,
        needs=(npu, cpu, acl),
    )
    shared_object(
        own / "libop_plugin_atb.so",
        functions("plugin", calls=("_ZN3atb3runEv", "npu")),
        *inside,
        needs=(npu, libatb),
    )
    return Python(executable=sys.executable, version="3.11.7", sys_path=(str(site),))


def collect(root: Path, python: Python, *folders: str) -> Native:
    path = ":".join(f"{root}/{folder}" for folder in folders)
    return native(LiveMachine({"LD_LIBRARY_PATH": path}), python)


def names(native: Native) -> list[str]:
    return [missing_symbol.name for missing_symbol in native.missing_symbols]


def test_all_is_found_with_cann_and_atb(tmp_path: Path) -> None:
    native = collect(tmp_path, environment(tmp_path), "cann", "atb")
    assert native.missing == ()
    assert names(native) == []
    assert native.symbols_checked == 7
    assert native.machine == os.uname().machine
    places = {needed.name: (needed.path, needed.by) for needed in native.needed}
    site = tmp_path / "site"
    assert places == {
        "libtorch_npu.so": (f"{site}/torch_npu/lib/libtorch_npu.so", "torch_npu"),
        "libtorch_cpu.so": (f"{site}/torch/lib/libtorch_cpu.so", "torch"),
        "libascendcl.so": (f"{tmp_path}/cann/libascendcl.so", "LD_LIBRARY_PATH"),
        "libatb.so": (f"{tmp_path}/atb/libatb.so", "LD_LIBRARY_PATH"),
    }
    assert [needed.name for needed in native.needed if not needed.at_import] == ["libatb.so"]


def test_without_cann_its_symbols_say_nothing(tmp_path: Path) -> None:
    native = collect(tmp_path, environment(tmp_path))
    assert native.missing == ("libascendcl.so",)
    assert [needed.name for needed in native.needed if needed.path is None] == [
        "libascendcl.so",
        "libatb.so",
    ]
    assert names(native) == []
    assert native.symbols_checked == 4, "those of torch, Python and torch_npu itself"
    assert native.atb is not None
    assert native.atb.path is None


def test_without_nnal_the_import_works(tmp_path: Path) -> None:
    native = collect(tmp_path, environment(tmp_path, atb=False), "cann", "atb")
    assert native.missing == ()
    assert names(native) == []
    (late,) = [needed for needed in native.needed if needed.path is None]
    assert (late.name, late.at_import) == ("libatb.so", False)


def test_an_older_cann_lacks_symbols(tmp_path: Path) -> None:
    native = collect(tmp_path, environment(tmp_path, cann=("aclInit",)), "cann", "atb")
    (only,) = native.missing_symbols
    assert (only.name, only.owner, only.at_import) == ("HcclBroadcast", "cann", True)
    assert only.wanted_by.endswith("lib/libtorch_npu.so")


def test_another_torch_lacks_symbols_even_without_cann(tmp_path: Path) -> None:
    native = collect(tmp_path, environment(tmp_path, torch=("_ZN2at4onesEv",)))
    assert {
        (missing_symbol.name, missing_symbol.owner) for missing_symbol in native.missing_symbols
    } == {(name, "torch") for name in TORCH}


def test_an_older_atb_stops_no_import(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    shared_object(tmp_path / "atb" / "libatb.so", functions("_ZN3atb3oldEv"))
    native = collect(tmp_path, examined, "cann", "atb")
    (only,) = native.missing_symbols
    assert (only.name, only.at_import) == ("_ZN3atb3runEv", False)


def test_a_damaged_or_foreign_library_is_passed_over(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    foreign = tmp_path / "foreign" / "libascendcl.so"
    foreign.parent.mkdir()
    content = bytearray((tmp_path / "cann" / "libascendcl.so").read_bytes())
    content[18] = 183 if content[18] == 62 else 62
    foreign.write_bytes(content)
    native = collect(tmp_path, examined, "foreign", "cann", "atb")
    places = {needed.name: needed.path for needed in native.needed}
    assert places["libascendcl.so"] == f"{tmp_path}/cann/libascendcl.so"
    alone = collect(tmp_path, examined, "foreign", "atb")
    assert alone.missing == ("libascendcl.so",)
    assert {needed.by.partition(": for ")[0] for needed in alone.needed if needed.path is None} == {
        str(foreign)
    }
    (tmp_path / "foreign" / "libascendcl.so").write_text("no library")
    assert collect(tmp_path, examined, "foreign").missing == ("libascendcl.so",)


def test_without_torch_its_libraries_are_missing(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    shutil.rmtree(tmp_path / "site" / "torch")
    native = collect(tmp_path, examined, "cann", "atb")
    assert native.missing == ("libtorch_cpu.so",)
    assert names(native) == []


def test_a_wheel_for_another_python_lacks_what_it_imports(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    other = Python(executable=examined.executable, version="3.10.1", sys_path=examined.sys_path)
    (missing,) = native(LiveMachine({}), other).missing
    assert missing.startswith("_C for Python 3.10.1 (there: _C.cpython-")


def test_no_torch_npu_is_an_answer() -> None:
    facts = native(LiveMachine({}), Python(executable=sys.executable, sys_path=("/nowhere",)))
    assert facts.torch_npu == ""
    assert facts.hal is not None
    assert facts.missing == ()


def test_the_drivers_library_is_found_where_dlopen_looks(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    shared_object(tmp_path / "driver" / "libascend_hal.so", functions("drvGetDevNum"))
    hal = present(collect(tmp_path, examined, "driver").hal)
    assert (hal.path, hal.by) == (f"{tmp_path}/driver/libascend_hal.so", "LD_LIBRARY_PATH")


def test_a_library_of_cann_that_lacks_another_stops_the_import(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    hal = shared_object(tmp_path / "build" / "libascend_hal.so", functions("drvGetDevNum"))
    shared_object(tmp_path / "cann" / "libascendcl.so", functions(*CANN), needs=(hal,))
    native = collect(tmp_path, examined, "cann", "atb")
    assert native.missing == ("libascend_hal.so",)


def test_it_is_replayed(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    recorder = RecordingMachine(LiveMachine({"LD_LIBRARY_PATH": f"{tmp_path}/cann"}))
    seen = native(recorder, examined)
    env = dict(recorder.env)
    recorder.save(tmp_path / "machine", origin="a test", python="", clean=str, env=env)
    shutil.rmtree(tmp_path / "site")
    assert native(ReplayMachine(tmp_path / "machine"), examined) == seen


# --- the rules of the loader


def test_a_folder_of_the_asking_object_comes_by_its_rule(tmp_path: Path) -> None:
    inner = shared_object(tmp_path / "inner" / "libinner.so", functions("inner"))
    shared_object(tmp_path / "other" / "libinner.so", functions("inner"))
    middle = shared_object(tmp_path / "libmiddle.so", functions("middle"), needs=(inner,))
    paths = {}
    for tag in ("--disable-new-dtags", "--enable-new-dtags"):
        top = shared_object(
            tmp_path / f"{tag}.so",
            functions("top"),
            *(f"-Wl,{tag}", "-Wl,-rpath,$ORIGIN:${ORIGIN}/inner"),
            needs=(middle,),
        )
        linker = Linker(LiveMachine({"LD_LIBRARY_PATH": f"{tmp_path}/other"}))
        linker.link(str(top), "test")
        paths[tag] = linker.loaded["libinner.so"].path
    assert paths["--disable-new-dtags"] == str(inner), "RPATH is inherited and comes first"
    assert paths["--enable-new-dtags"] == f"{tmp_path}/other/libinner.so", "RUNPATH is not"


def test_it_loads_what_the_loader_loads() -> None:
    if shutil.which("ldd") is None:
        pytest.skip("there is no ldd")
    program = os.path.realpath(sys.executable)
    done = run_program(["ldd", program])
    words = [line.split() for line in done.stdout.splitlines()]
    expected = {os.path.realpath(word[2]) for word in words if len(word) > 3 and word[1] == "=>"}
    linker = Linker(LiveMachine())
    linker.link(program, "test")
    loaded = {os.path.realpath(path) for path in linker.files} - {program}
    assert {path for path in loaded if not Path(path).name.startswith("ld-")} == {
        path for path in expected if not Path(path).name.startswith("ld-")
    }
    assert linker.missing == {}


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("aclrtMalloc", "cann"),
        ("HcclAllReduce", "cann"),
        ("_ZN2ge5GraphC1Ev", "cann"),
        ("_ZTVN3atb9OperationE", "nnal"),
        ("_ZN3Mki11LaunchParam12GetInTensorsEv", "nnal"),
        ("rtKernelLaunch", "cann"),
        ("MsprofReportApi", "cann"),
        ("_ZN3c1010TensorImplD1Ev", "torch"),
        ("_ZNK2at10TensorBase4sizeEv", "torch"),
        ("_ZTIN5torch8autograd4NodeE", "torch"),
        ("_ZN4c10d7BackendE", "torch"),
        ("_Z16THPVariable_WrapN2at6TensorE", "torch"),
        ("_ZN21THManagedMapAllocator11fromDataPtrERKN3c107DataPtrE", "torch"),
        ("PyList_New", ""),
        ("_ZN9torch_npu3fooEv", ""),
        ("_ZNSt6vectorE", ""),
        ("memcpy", ""),
    ],
)
def test_owners_by_name(name: str, whose: str) -> None:
    assert owner(name) == whose


# --- the real wheel


def test_the_wheel_without_cann_lacks_six_libraries(examined_python: Path) -> None:
    machine = LiveMachine({"PATH": os.environ["PATH"]})
    facts = native(machine, python(machine, str(examined_python)))
    assert set(facts.missing) == {*LIBRARIES}
    assert facts.missing[0] == "libhccl.so", "the one that the message names"
    assert facts.missing_symbols == ()
    assert facts.symbols_checked > 2000
    late = {needed.name for needed in facts.needed if needed.path is None and not needed.at_import}
    assert late == {"libatb.so", "libfmk_parser.so", "libascend_protobuf.so"}
    assert facts.machine == os.uname().machine


def test_the_wheel_needs_what_python_says_it_needs(examined_python: Path) -> None:
    """The loader, in another process, stops at the same library."""
    machine = LiveMachine({"PATH": os.environ["PATH"]})
    facts = native(machine, python(machine, str(examined_python)))
    done = run_program(
        [examined_python, "-c", "import torch; import torch_npu"],
        check=False,
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": os.environ["PATH"]},
    )
    assert f"ImportError: {facts.missing[0]}: cannot open shared object" in done.stderr


def test_the_wheel_finds_all_in_the_stand_in_tree(
    examined_python: Path, simulator_cache: Path
) -> None:
    tree = build(examined_python, cache=simulator_cache)
    env = tree.environment(os.environ, soc="Ascend910B3", devices=1, memory_bytes=1 << 30)
    machine = LiveMachine(env)
    facts = native(machine, python(machine, str(examined_python)))
    assert [needed.name for needed in facts.needed if needed.path is None] == []
    assert facts.missing_symbols == ()
    assert facts.atb is not None
    assert (facts.atb.path or "").startswith(str(tree.home))
    seen = cann(machine)
    assert seen.active == str(tree.home)
    assert [install.simulated for install in seen.installs] == [True]


def test_an_answer_about_symbols_is_kept_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def counted(_: object, libraries: Iterable[str]) -> dict[str, object]:
        asked.append(list(libraries))
        return {"checked": len(asked), "missing": []}

    monkeypatch.setattr(native_module, "compare", counted)
    library = tmp_path / "libone.so"
    library.write_bytes(b"1")
    lacking: dict[str, frozenset[str]] = {str(library): frozenset()}
    ask = native_module._compare_once
    assert ask(lacking, [str(library)]) == ask(lacking, [str(library)])
    assert len(asked) == 1
    library.write_bytes(b"22")
    assert ask(lacking, [str(library)])["checked"] == 2
    assert ask({str(library): frozenset({"liba.so"})}, [str(library)])["checked"] == 3
