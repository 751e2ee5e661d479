from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from ascend_doctor.collect import native as native_module
from ascend_doctor.collect.cann import cann
from ascend_doctor.collect.linking import Linker
from ascend_doctor.collect.native import native, owner
from ascend_doctor.collect.python import python
from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Native, Python
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import RecordingMachine, ReplayMachine
from ascend_doctor.simulator import build
from tests.collect.elf_files import functions, shared_object

CANN = ("aclInit", "HcclBroadcast")
TORCH = ("_ZN2at5emptyEv", "THPVariable_Wrap")


def environment(
    root: Path, *, torch: Sequence[str] = TORCH, cann: Sequence[str] = CANN, atb: bool = True
) -> Python:
    """torch and torch_npu as the wheels have them, CANN in ``root/cann``."""
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


def collected(root: Path, python: Python, *folders: str) -> Native:
    path = ":".join(f"{root}/{one}" for one in folders)
    return native(LiveMachine({"LD_LIBRARY_PATH": path}), python)


def names(found: Native) -> list[str]:
    return [one.name for one in found.missing_symbols]


def test_all_is_found_with_cann_and_atb(tmp_path: Path) -> None:
    found = collected(tmp_path, environment(tmp_path), "cann", "atb")
    assert found.missing == ()
    assert names(found) == []
    assert found.symbols_checked == 7
    assert found.libraries == 3
    assert found.machine == os.uname().machine
    places = {one.name: (one.path, one.by) for one in found.needed}
    site = tmp_path / "site"
    assert places == {
        "libtorch_npu.so": (f"{site}/torch_npu/lib/libtorch_npu.so", "torch_npu"),
        "libtorch_cpu.so": (f"{site}/torch/lib/libtorch_cpu.so", "torch"),
        "libascendcl.so": (f"{tmp_path}/cann/libascendcl.so", "LD_LIBRARY_PATH"),
        "libatb.so": (f"{tmp_path}/atb/libatb.so", "LD_LIBRARY_PATH"),
    }
    assert [one.name for one in found.needed if not one.at_import] == ["libatb.so"]


def test_without_cann_its_symbols_say_nothing(tmp_path: Path) -> None:
    found = collected(tmp_path, environment(tmp_path))
    assert found.missing == ("libascendcl.so",)
    assert [one.name for one in found.needed if one.path is None] == ["libascendcl.so", "libatb.so"]
    assert names(found) == []
    assert found.symbols_checked == 4, "those of torch, Python and torch_npu itself"
    assert found.atb is not None
    assert found.atb.path is None


def test_without_nnal_the_import_works(tmp_path: Path) -> None:
    found = collected(tmp_path, environment(tmp_path, atb=False), "cann", "atb")
    assert found.missing == ()
    assert names(found) == []
    (late,) = [one for one in found.needed if one.path is None]
    assert (late.name, late.at_import) == ("libatb.so", False)


def test_an_older_cann_lacks_symbols(tmp_path: Path) -> None:
    found = collected(tmp_path, environment(tmp_path, cann=("aclInit",)), "cann", "atb")
    (only,) = found.missing_symbols
    assert (only.name, only.owner, only.at_import) == ("HcclBroadcast", "cann", True)
    assert only.wanted_by.endswith("lib/libtorch_npu.so")


def test_another_torch_lacks_symbols_even_without_cann(tmp_path: Path) -> None:
    found = collected(tmp_path, environment(tmp_path, torch=("_ZN2at4onesEv",)))
    assert {(one.name, one.owner) for one in found.missing_symbols} == {
        (name, "torch") for name in TORCH
    }


def test_an_older_atb_stops_no_import(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    shared_object(tmp_path / "atb" / "libatb.so", functions("_ZN3atb3oldEv"))
    found = collected(tmp_path, examined, "cann", "atb")
    (only,) = found.missing_symbols
    assert (only.name, only.at_import) == ("_ZN3atb3runEv", False)


def test_a_damaged_or_foreign_library_is_passed_over(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    foreign = tmp_path / "foreign" / "libascendcl.so"
    foreign.parent.mkdir()
    content = bytearray((tmp_path / "cann" / "libascendcl.so").read_bytes())
    content[18] = 183 if content[18] == 62 else 62
    foreign.write_bytes(content)
    found = collected(tmp_path, examined, "foreign", "cann", "atb")
    places = {one.name: one.path for one in found.needed}
    assert places["libascendcl.so"] == f"{tmp_path}/cann/libascendcl.so"
    alone = collected(tmp_path, examined, "foreign", "atb")
    assert alone.missing == ("libascendcl.so",)
    assert {one.by.partition(": for ")[0] for one in alone.needed if one.path is None} == {
        str(foreign)
    }
    (tmp_path / "foreign" / "libascendcl.so").write_text("no library")
    assert collected(tmp_path, examined, "foreign").missing == ("libascendcl.so",)


def test_without_torch_its_libraries_are_missing(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    shutil.rmtree(tmp_path / "site" / "torch")
    found = collected(tmp_path, examined, "cann", "atb")
    assert found.missing == ("libtorch_cpu.so",)
    assert names(found) == []


def test_a_wheel_for_another_python_is_a_gap(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    other = Python(executable=examined.executable, version="3.10.1", sys_path=examined.sys_path)
    with pytest.raises(Unknown, match=r"no extension module for Python 3\.10\.1"):
        native(LiveMachine({}), other)


def test_no_torch_npu_is_an_answer() -> None:
    found = native(LiveMachine({}), Python(executable=sys.executable, sys_path=("/nowhere",)))
    assert found.torch_npu == ""
    assert found.hal is not None
    assert found.missing == ()


def test_the_drivers_library_is_found_where_dlopen_looks(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    shared_object(tmp_path / "driver" / "libascend_hal.so", functions("drvGetDevNum"))
    hal = collected(tmp_path, examined, "driver").hal
    assert hal is not None
    assert (hal.path, hal.by) == (f"{tmp_path}/driver/libascend_hal.so", "LD_LIBRARY_PATH")


def test_a_library_of_cann_that_lacks_another_stops_the_import(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    hal = shared_object(tmp_path / "build" / "libascend_hal.so", functions("drvGetDevNum"))
    shared_object(tmp_path / "cann" / "libascendcl.so", functions(*CANN), needs=(hal,))
    found = collected(tmp_path, examined, "cann", "atb")
    assert found.missing == ("libascend_hal.so",)


def test_it_is_replayed(tmp_path: Path) -> None:
    examined = environment(tmp_path)
    recorder = RecordingMachine(LiveMachine({"LD_LIBRARY_PATH": f"{tmp_path}/cann"}))
    seen = native(recorder, examined)
    env = dict(recorder.env)
    recorder.save(tmp_path / "machine", origin="a test", python="", clean=str, env=env)
    shutil.rmtree(tmp_path / "site")
    assert native(ReplayMachine(tmp_path / "machine"), examined) == seen


# ---------------------------------------------------------------- the rules of the loader


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
    done = subprocess.run(["ldd", program], check=True, capture_output=True, text=True)
    words = [line.split() for line in done.stdout.splitlines()]
    expected = {os.path.realpath(one[2]) for one in words if len(one) > 3 and one[1] == "=>"}
    linker = Linker(LiveMachine())
    linker.link(program, "test")
    found = {os.path.realpath(path) for path in linker.files} - {program}
    assert {one for one in found if not Path(one).name.startswith("ld-")} == {
        one for one in expected if not Path(one).name.startswith("ld-")
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


# ---------------------------------------------------------------- the real wheel

MISSING = {
    "libhccl.so",
    "libascendcl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
}


def test_the_wheel_without_cann_lacks_six_libraries(examined_python: Path) -> None:
    machine = LiveMachine({"PATH": os.environ["PATH"]})
    found = native(machine, python(machine, str(examined_python)))
    assert set(found.missing) == MISSING
    assert found.missing[0] == "libhccl.so", "the one that the message names"
    assert found.missing_symbols == ()
    assert found.symbols_checked > 2000
    late = {one.name for one in found.needed if one.path is None and not one.at_import}
    assert late == {"libatb.so", "libfmk_parser.so", "libascend_protobuf.so"}
    assert found.machine == os.uname().machine


def test_the_wheel_needs_what_python_says_it_needs(examined_python: Path) -> None:
    """The loader itself, asked in a process of its own, stops at the same library."""
    machine = LiveMachine({"PATH": os.environ["PATH"]})
    found = native(machine, python(machine, str(examined_python)))
    done = subprocess.run(
        [examined_python, "-c", "import torch; import torch_npu"],
        check=False,
        capture_output=True,
        text=True,
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": os.environ["PATH"]},
    )
    assert f"ImportError: {found.missing[0]}: cannot open shared object" in done.stderr


def test_the_wheel_finds_all_in_the_stand_in_tree(
    examined_python: Path, simulator_cache: Path
) -> None:
    tree = build(examined_python, cache=simulator_cache)
    env = tree.environment(os.environ, soc="Ascend910B3", devices=1, memory_bytes=1 << 30)
    machine = LiveMachine(env)
    found = native(machine, python(machine, str(examined_python)))
    assert [one.name for one in found.needed if one.path is None] == []
    assert found.missing_symbols == ()
    assert found.atb is not None
    assert (found.atb.path or "").startswith(str(tree.home))
    seen = cann(machine)
    assert seen.active == str(tree.home)
    assert [one.simulated for one in seen.installs] == [True]


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
