import io
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ascend_doctor import cli
from ascend_doctor.collect import cann_host
from ascend_doctor.commands import env as command
from ascend_doctor.commands import setup_run
from ascend_doctor.commands.setup_proof import Prover
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.env_format import SHELLS, Change, text
from ascend_doctor.provision.env_undo import NAME
from tests.programs import run_program
from tests.provision.hostile import NAMES, VALUES
from tests.provision.shells import compare_environments, environments, require

ARCH = os.uname().machine
TILING = f"opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{ARCH}"
TBE = "opp/built-in/op_impl/ai_core/tbe"
PROGRAM = Path(sys.executable).with_name("ascend-doctor")
TIMEOUTS = {
    "HCCL_CONNECT_TIMEOUT": "1200",
    "HCCL_EXEC_TIMEOUT": "1836",
    "HCCL_EVENT_TIMEOUT": "1868",
}
ATB = {
    "ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE": "0",
    "ATB_STREAM_SYNC_EVERY_RUNNER_ENABLE": "0",
    "ATB_STREAM_SYNC_EVERY_OPERATION_ENABLE": "0",
    "ATB_OPSRUNNER_KERNEL_CACHE_LOCAL_COUNT": "1",
    "ATB_OPSRUNNER_KERNEL_CACHE_GLOABL_COUNT": "5",
    "ATB_WORKSPACE_MEM_ALLOC_ALG_TYPE": "1",
    "ATB_COMPARE_TILING_EVERY_KERNEL": "0",
    "ATB_SHARE_MEMORY_NAME_SUFFIX": "",
    "ATB_MATMUL_SHUFFLE_K_ENABLE": "1",
    "LCCL_DETERMINISTIC": "0",
    "LCCL_PARALLEL": "0",
}


@pytest.fixture(autouse=True)
def machine_without_ascend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test makes is there, whatever the machine of the tests has."""
    monkeypatch.setattr(cann_host, "_driver", lambda _: None)
    monkeypatch.setattr("ascend_doctor.collect.cann_tree.bases", lambda _: ())


def folders(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)


def stack(prefix: Path, *, settings: tuple[locks.Setting, ...] = (), cann: str = "") -> Path:
    """A finished stack, as setup leaves it; gives its folder."""
    folder = prefix / "stacks" / "s1"
    names = ("megatron-lm", "mindspeed")
    folders(folder, "src/megatron-lm/megatron/core", "src/mindspeed/mindspeed", "venv/bin")
    (folder / "venv" / "pyvenv.cfg").write_text("")
    lock = locks.Lock(
        tool_version="1",
        id="s1",
        created_at="2026-11-21T00:00:00Z",
        wish={"megatron": "0.15.3"},
        python=locks.BasePython(version="3.11.2", tag="cp311", arch=ARCH),
        checkouts=tuple(
            locks.Checkout(name=name, version="v", ref="v", commit="0" * 40, url="/u")
            for name in names
        ),
        wheels=(),
        settings=settings,
        pythonpath=("src/megatron-lm", "src/mindspeed"),
        system={"cann": cann} if cann else {},
    )
    locks.write(folder / locks.FILE, lock)
    locks.Prefix(prefix).switch("s1")
    return folder


def toolkit(root: Path, version: str = "9.0.0") -> Path:
    """A toolkit; up to 8.3 set_env.sh lies beside the folder ``latest``, then inside."""
    folders(root, "runtime", "lib64/plugin/opskernel", "lib64/plugin/nnengine", TILING, "devlib")
    folders(root, "python/site-packages", "bin", "tools/ccec_compiler/bin", f"{ARCH}-linux")
    (root / f"{ARCH}-linux" / "ascend_toolkit_install.info").write_text(f"version={version}\n")
    if version.startswith("8.1"):
        folders(root, "compiler/ccec_compiler/bin", "tools/aml/lib64/plugin", "tools/msobjdump")
        (root.parent / "set_env.sh").write_text("exit 7\n")
    else:
        folders(root, "tools/profiler/bin", "tools/msobjdump", "lib64/cmake")
        (root / "set_env.sh").write_text("exit 7\n")
    return root


def nnal(root: Path) -> Path:
    for abi in "01":
        folders(root, *(f"atb/cxx_abi_{abi}/{name}" for name in ("lib", "bin", "examples")))
    (root / "version.info").write_text("    Ascend-cann-atb : 9.0.0\n")
    return root


def ran(environ: Mapping[str, str], *arguments: str) -> tuple[int, bytes]:
    """Run the command here with this environment; gives status and output."""
    written = io.BytesIO()
    out = io.TextIOWrapper(written, write_through=True)
    with mock.patch.dict(os.environ, dict(environ), clear=True), mock.patch("sys.stdout", out):
        code = cli.run(["env", *arguments])
    return code, written.getvalue()


def env(environ: Mapping[str, str], *arguments: str) -> dict[str, str | None]:
    code, out = ran(environ, *arguments, "--shell", "json")
    assert code == 0
    return {row["name"]: row["value"] for row in json.loads(out)["variables"]}


def script(environ: Mapping[str, str], *arguments: str) -> str:
    code, out = ran(environ, *arguments)
    assert code == 0
    return os.fsdecode(out)


def expected_env(folder: Path, old: Mapping[str, str]) -> dict[str, str]:
    at, cann, atb = f"{folder}/stacks/s1", f"{folder}/cann", f"{folder}/atb/atb/cxx_abi_1"
    rest = [entry for entry in old.get("PYTHONPATH", "").split(":") if entry]
    modules = [f"{at}/src/megatron-lm", f"{at}/src/mindspeed", f"{cann}/python/site-packages"]
    libraries = [f"{cann}/{subfolder}" for subfolder in ("lib64", "lib64/plugin/opskernel")]
    libraries += [f"{cann}/lib64/plugin/nnengine", f"{cann}/{TILING}"]
    programs = ("bin", "tools/ccec_compiler/bin", "tools/profiler/bin", "tools/msobjdump")
    lists = {
        "PATH": [
            f"{at}/venv/bin",
            f"{atb}/bin",
            *(f"{cann}/{program}" for program in programs),
            "/bin",
        ],
        "LD_LIBRARY_PATH": [f"{atb}/lib", f"{atb}/examples", *libraries, f"{cann}/devlib"],
        "PYTHONPATH": [*modules, f"{cann}/{TBE}", *dict.fromkeys(rest)],
        "CMAKE_PREFIX_PATH": [f"{cann}/lib64/cmake"],
    }
    return {
        **old,
        **{name: ":".join(entries) for name, entries in lists.items()},
        "VIRTUAL_ENV": f"{at}/venv",
        "MEGATRON_LM_PATH": f"{at}/src/megatron-lm",
        "USE_MCORE_GDN": "0",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
        "ASCEND_TOOLKIT_HOME": cann,
        "ASCEND_HOME_PATH": cann,
        "ASCEND_OPP_PATH": f"{cann}/opp",
        "ASCEND_AICPU_PATH": cann,
        "TOOLCHAIN_HOME": f"{cann}/toolkit",
        "ATB_HOME_PATH": atb,
        **ATB,
        **TIMEOUTS,
    }


def memory(setting: str) -> str:
    match = re.search(rf"{NAME}[ =]'([A-Za-z0-9+/=]+)'", setting)
    assert match
    return match[1]


def between(env: Mapping[str, str], other: Mapping[str, str], shell: str) -> str:
    names = [name for name in {*env, *other} if env.get(name) != other.get(name)]
    return text([Change(name, other.get(name), "a test") for name in names], shell)


OLD = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("PYTHONPATH", "MEGATRON_LM_PATH", "USE_MCORE_GDN", "VIRTUAL_ENV", "OTHER"), VALUES
    ),
)
# A shell runs this many paths: its start takes longer than a path.
BATCH, BATCHES = 50, 4


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@settings(
    max_examples=BATCHES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(cases=st.lists(st.tuples(NAMES, OLD), min_size=BATCH, max_size=BATCH))
def test_200_hostile_paths_give_exactly_the_variables_and_then_the_old_ones(
    shell: str, tmp_path_factory: pytest.TempPathFactory, cases: list[tuple[str, dict[str, str]]]
) -> None:
    require(shell)
    top = tmp_path_factory.mktemp("hostile")
    base = {"PATH": "/bin", "LC_ALL": "C.UTF-8", "HOME": str(top)}
    (base,) = environments(shell, [""], top / "empty", base)
    scripts, expected = [], []
    for number, (name, more) in enumerate(cases):
        folder = top / str(number) / name
        stack(folder)
        toolkit(folder / "cann")
        nnal(folder / "atb")
        old = {**base, **more, "ASCEND_HOME_PATH": f"{folder}/cann"}
        old["ATB_HOME_PATH"] = f"{folder}/atb/atb/cxx_abi_0"
        asked = ("--prefix", str(folder), "--shell", shell)
        setting = script(old, *asked)
        there = expected_env(folder, old)
        there[NAME] = memory(setting)
        again, back = script(there, *asked), script(there, "--undo", "--shell", shell)
        first, last = between(base, old, shell), between(old, base, shell)
        scripts += [first, setting, again, back, last]
        expected += [old, there, there, old, base]
    compare_environments(environments(shell, scripts, top / "empty", base), expected)


SOURCED = {"bash": "source <({})\n", "zsh": "source <({})\n", "fish": "{} | source\n"}
SOURCED["sh"] = 'eval "$({})"\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a b", "it's", '"$HOME"', "$(>ran)", "路径\n`>ran`", "-e", "\x1b["]
)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_program_is_sourced_from_any_folder(shell: str, name: str, tmp_path: Path) -> None:
    """The shell is found by itself; undone, the environment is what it was."""
    path = tmp_path / name
    folder = stack(path)
    base = {"PATH": "/bin:/usr/bin", "HOME": str(tmp_path), "ASCEND_DOCTOR_PREFIX": str(path)}
    base |= {"USE_MCORE_GDN": "1", "PYTHONPATH": ":/a b::/a b:", "LC_ALL": "C.UTF-8"}
    sourced = SOURCED[shell].format(f"{PROGRAM} env 2>/dev/null")
    undo = SOURCED[shell].format(f"{PROGRAM} env --undo")
    scripts = ["", sourced, sourced, undo, undo.replace("--undo", "--undo 2>/dev/null")]
    start, there, again, back, twice = environments(shell, scripts, tmp_path / "empty", base)
    tree = folder / "src" / "megatron-lm"
    assert there["MEGATRON_LM_PATH"] == str(tree)
    assert there["PYTHONPATH"].startswith(f"{tree}:{folder}/src/mindspeed:")
    assert there["PYTHONPATH"].endswith("/a b")
    assert there["USE_MCORE_GDN"] == "0"
    assert there["PATH"].startswith(f"{folder}/venv/bin:")
    assert again == there
    assert back == start
    assert twice == start


def test_setup_proves_in_what_a_shell_has_that_sources_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the program looks at the machine of the tests, and so does the proof
    prefix, cann = tmp_path / "a prefix", toolkit(tmp_path / "cann")
    folder = stack(
        prefix, cann="9.0.0", settings=(locks.Setting(name="USE_MCORE_GDN", value="$b", why="c"),)
    )
    base = {"PATH": "/bin:/usr/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    base |= {"ASCEND_HOME_PATH": str(cann), "PYTHONPATH": "/a:", "MINE": "1"}
    sourced = SOURCED["bash"].format(f"{PROGRAM} env --prefix '{prefix}'")
    (shell,) = environments("bash", [sourced], tmp_path / "empty", base)
    lock = locks.read(folder)
    with mock.patch.dict(os.environ, base, clear=True):
        examination = Prover(level=1, simulated=False, overlays=(), quiet=True).examine(
            folder, "python", lock
        )
        imports = setup_run.source_stack(folder, lock)
    assert examination.machine.env == shell
    assert imports == shell
    assert shell["PYTHONPATH"].startswith(f"{folder}/src/megatron-lm:{folder}/src/mindspeed:{cann}")
    assert shell["USE_MCORE_GDN"] == "$b"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["--prefix /nowhere", "--shell csh", "--no-such", "--undo x"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_failure_leaves_a_message_and_a_false_status(
    shell: str, arguments: str, tmp_path: Path
) -> None:
    require(shell)
    sourced = SOURCED[shell].format(f"{PROGRAM} env {arguments}").strip()
    show = {"fish": "echo $status"}.get(shell, "echo $?")
    done = run_program(
        [require(shell), "-c", f"{sourced}; {show}; /usr/bin/env"],
        check=False,
        cwd=tmp_path,
        env={"PATH": "/bin:/usr/bin", "HOME": str(tmp_path)},
    )
    assert done.stdout.splitlines()[0] == "1"
    assert "ASCEND" not in done.stdout
    assert done.stderr.startswith("ascend-doctor: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "out", "code"),
    [
        (("--prefix", "/nowhere"), b"false\n", 2),
        (("--prefix", "/nowhere", "--shell", "json"), b"", 2),
        (("--shell", "dotenv", "--nothing"), b"", 2),
        (("--nothing",), b"false\n", 2),
        (("--undo",), b"", 0),
    ],
)
def test_what_a_failure_prints(
    arguments: tuple[str, ...], out: bytes, code: int, tmp_path: Path
) -> None:
    assert ran({"HOME": str(tmp_path), "SHELL": "/bin/bash"}, *arguments)[1].endswith(out)
    assert ran({"HOME": str(tmp_path)}, *arguments)[0] == code


def test_a_bug_and_an_interruption_are_false_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for failing, code in ((RuntimeError("x"), 70), (KeyboardInterrupt(), 130)):
        monkeypatch.setattr(command, "_changes", mock.Mock(side_effect=failing))
        assert ran({"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}) == (code, b"false\n")
    capfd.readouterr()


def test_without_a_stack_the_variables_are_those_of_the_machine(tmp_path: Path) -> None:
    cann = toolkit(tmp_path / "cann")
    variables = env({"HOME": str(tmp_path), "ASCEND_TOOLKIT_HOME": str(cann)})
    assert variables["ASCEND_HOME_PATH"] == str(cann)
    assert variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "1"
    assert "MEGATRON_LM_PATH" not in variables
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in variables


def test_with_a_tree_that_the_shell_names(tmp_path: Path) -> None:
    folders(tmp_path, "tree/megatron/core/ssm", "other/megatron", "other/x")
    base = {"HOME": str(tmp_path), "MEGATRON_LM_PATH": f"{tmp_path}/tree/"}
    base["PYTHONPATH"] = f"{tmp_path}/other:{tmp_path}/other/x:{tmp_path}/tree"
    variables = env(base)
    assert variables["MEGATRON_LM_PATH"] == f"{tmp_path}/tree"
    assert variables["PYTHONPATH"] == f"{tmp_path}/tree:{tmp_path}/other/x"
    assert variables["USE_MCORE_GDN"] == "0"
    (tmp_path / "tree/megatron/core/ssm/gated_delta_net.py").write_text("")
    assert env(base)["USE_MCORE_GDN"] == "1"
    assert "USE_MCORE_GDN" not in env(base | {"USE_MCORE_GDN": "0"})


def test_without_cann_torch_does_not_look_for_it(tmp_path: Path) -> None:
    stack(tmp_path)
    variables = env({"HOME": str(tmp_path)}, "--prefix", str(tmp_path))
    assert variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert "LD_LIBRARY_PATH" not in variables


def test_the_old_layout(tmp_path: Path) -> None:
    cann = toolkit(tmp_path / "ascend-toolkit" / "latest", "8.1.RC1")
    variables = env({"HOME": str(tmp_path), "ASCEND_HOME_PATH": str(cann), "PATH": "/bin"})
    assert variables["PATH"] == ":".join(
        [
            f"{cann}/{subfolder}"
            for subfolder in ("bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin")
        ]
        + ["/bin"]
    )
    assert (variables["LD_LIBRARY_PATH"] or "").endswith(
        f"{cann}/tools/aml/lib64/plugin:{cann}/devlib"
    )
    assert "CMAKE_PREFIX_PATH" not in variables


def test_the_toolkit_of_the_stack_is_taken_and_others_leave(tmp_path: Path) -> None:
    old, new = toolkit(tmp_path / "cann-8.5.0", "8.5.0"), toolkit(tmp_path / "cann-9.0.0")
    stack(tmp_path / "p", cann="9.0.0")
    base = {"HOME": str(tmp_path), "ASCEND_HOME_PATH": str(old), "ASCEND_TOOLKIT_HOME": str(new)}
    own = f"{new}/opp/vendors/own/op_api/lib"
    base["LD_LIBRARY_PATH"] = f"{old}/lib64:/x:{own}:{new}/devlib:"
    base["PYTHONPATH"] = f"{old}/python/site-packages:/y"
    variables = env(base, "--prefix", str(tmp_path / "p"))
    assert variables["ASCEND_HOME_PATH"] == str(new)
    libraries = (variables["LD_LIBRARY_PATH"] or "").split(":")
    assert not [library for library in libraries if library.startswith(str(old))]
    assert libraries[-3:] == ["/x", own, f"{new}/devlib"]
    assert (variables["PYTHONPATH"] or "").endswith("/y")
    assert str(old) not in (variables["PYTHONPATH"] or "")


def test_another_cann_than_the_stack_was_made_for_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cann = toolkit(tmp_path / "cann-8.5.0", "8.5.0")
    stack(tmp_path / "p", cann="9.0.0")
    base = {"HOME": str(tmp_path), "ASCEND_HOME_PATH": str(cann)}
    assert env(base, "--prefix", str(tmp_path / "p"))["ASCEND_HOME_PATH"] == str(cann)
    assert "made for CANN 9.0.0; here is 8.5.0" in capsys.readouterr().err


def test_the_stub_goes_where_there_is_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cann = toolkit(tmp_path / "cann")
    base = {"HOME": str(tmp_path), "ASCEND_HOME_PATH": str(cann)}
    base["LD_LIBRARY_PATH"] = f"{cann}/devlib"
    monkeypatch.setattr(cann_host, "_driver", lambda _: ("/d/lib64", "/d/lib64/driver"))
    assert (env(base)["LD_LIBRARY_PATH"] or "").endswith(f"/{ARCH}:/d/lib64:/d/lib64/driver")


def test_the_abi_of_atb_is_that_of_torch(tmp_path: Path) -> None:
    folder = stack(tmp_path)
    cann, atb = toolkit(tmp_path / "cann"), nnal(tmp_path / "atb")
    base = {"HOME": str(tmp_path), "ASCEND_HOME_PATH": str(cann), "ATB_HOME_PATH": str(atb)}
    base |= {"ATB_MATMUL_SHUFFLE_K_ENABLE": "0"}
    variables = env(base, "--prefix", str(tmp_path))
    assert variables["ATB_HOME_PATH"] == f"{atb}/atb/cxx_abi_1"
    assert "ATB_MATMUL_SHUFFLE_K_ENABLE" not in variables
    assert variables["ATB_OPSRUNNER_KERNEL_CACHE_GLOABL_COUNT"] == "5"
    path = folder / "venv/lib/python3.11/site-packages/torch/share/cmake/Torch"
    path.mkdir(parents=True)
    flags = 'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={}")\n'
    for abi in "01":
        (path / "TorchConfig.cmake").write_text(flags.format(abi))
        variables = env(base, "--prefix", str(tmp_path))
        assert variables["ATB_HOME_PATH"] == f"{atb}/atb/cxx_abi_{abi}"


def test_time_outs_of_the_site_are_kept_in_their_order(tmp_path: Path) -> None:
    stack(tmp_path)
    base = {"HOME": str(tmp_path), "HCCL_EXEC_TIMEOUT": "7200", "HCCL_CONNECT_TIMEOUT": "600"}
    variables = env(base, "--prefix", str(tmp_path))
    assert {name: variables[name] for name in variables if "TIMEOUT" in name} == {
        "HCCL_EVENT_TIMEOUT": "7232"
    }


def test_settings_of_the_stack_stand_above_ours(tmp_path: Path) -> None:
    settings = (
        locks.Setting(name="CUDA_DEVICE_MAX_CONNECTIONS", value="2", why="FSDP"),
        locks.Setting(name="USE_MCORE_GDN", value="$b", why="a test"),
    )
    stack(tmp_path, settings=settings)
    variables = env({"HOME": str(tmp_path)}, "--prefix", str(tmp_path))
    assert variables["CUDA_DEVICE_MAX_CONNECTIONS"] == "2"
    assert variables["USE_MCORE_GDN"] == "$b"


def test_the_folder_of_one_stack_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stack(tmp_path / "p")
    monkeypatch.chdir(folder.parent)
    variables = env({"HOME": str(tmp_path)}, "--prefix", "s1")
    assert variables["VIRTUAL_ENV"] == f"{folder}/venv"


def test_a_stack_with_a_part_missing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a bundle's folder: a lock and no trees."""
    folder = stack(tmp_path)
    (folder / "src/mindspeed").rename(folder / "elsewhere")
    code, out = ran({"HOME": str(tmp_path)}, "--prefix", str(tmp_path))
    assert (code, out) == (2, b"false\n")
    assert "src/mindspeed is missing" in capsys.readouterr().err


def test_pythonhome_leaves_and_comes_back(tmp_path: Path) -> None:
    stack(tmp_path)
    base = {"HOME": str(tmp_path), "PYTHONHOME": "/usr"}
    assert env(base, "--prefix", str(tmp_path))["PYTHONHOME"] is None
    setting = script(base, "--prefix", str(tmp_path), "--shell", "bash")
    rest = {name: value for name, value in base.items() if name != "PYTHONHOME"}
    assert env(rest | {NAME: memory(setting)}, "--undo")["PYTHONHOME"] == "/usr"


def test_a_colon_in_the_path_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack(tmp_path / "a:b")
    code, out = ran({"HOME": str(tmp_path)}, "--prefix", str(tmp_path / "a:b"))
    assert (code, out) == (2, b"false\n")
    assert "colon" in capsys.readouterr().err


def test_the_difference_is_shown_in_comments(tmp_path: Path) -> None:
    stack(tmp_path)
    base = {"HOME": str(tmp_path), "PYTHONPATH": "/x", "USE_MCORE_GDN": "\x1b1"}
    shown = script(base, "--prefix", str(tmp_path), "--diff")
    lines = shown.splitlines()
    assert all(line.startswith("# ") and line.isprintable() for line in lines)
    assert f"#   + {tmp_path}/stacks/s1/src/megatron-lm" in lines
    assert "#   - /x" not in lines
    assert "#   - \\x1b1" in lines
    assert NAME not in shown


def test_each_variable_has_its_reason(tmp_path: Path) -> None:
    stack(tmp_path)
    code, out = ran({"HOME": str(tmp_path)}, "--prefix", str(tmp_path), "--shell", "json")
    assert code == 0
    assert all(len(row["because"]) > 10 for row in json.loads(out)["variables"])


def test_dotenv(tmp_path: Path) -> None:
    stack(tmp_path)
    lines = script({"HOME": str(tmp_path)}, "--prefix", str(tmp_path), "--shell", "dotenv")
    read = dict(line.split("=", 1) for line in lines.splitlines() if not line.startswith("#"))
    assert read["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert NAME not in read


def test_what_env_sets_is_valid_for_the_check_of_variables() -> None:
    variables = Catalog().variables
    for name, value in {**ATB, **TIMEOUTS, "CUDA_DEVICE_MAX_CONNECTIONS": "1"}.items():
        row = variables.find(name)
        if row is not None:
            assert value not in row.hurts
            assert row.low is None or row.low <= float(value)
            assert row.high is None or float(value) <= row.high
