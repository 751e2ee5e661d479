import ast
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect import interpreter_script
from ascend_doctor.collect.interpreter_script import (
    SENTINEL,
    parse_direct_url,
    parse_headers,
    parse_requires,
)
from ascend_doctor.collect.python import TRAINING, active, parse_interpreter, python
from ascend_doctor.errors import DataError, Unknown
from ascend_doctor.facts import Python
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import RecordingMachine, ReplayMachine
from tests.present import present
from tests.programs import run_program

Program = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program with this text, which poses as an interpreter."""

    def write(text: str) -> str:
        path = tmp_path / "posing"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return write


def dist_info(folder: Path, name: str, version: str, *headers: str, **files: str) -> Path:
    path = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    path.mkdir(parents=True)
    text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *headers])
    (path / "METADATA").write_text(f"{text}\n\nRequires-Dist: not-a-header\n")
    for file, content in files.items():
        (path / file.replace("_json", ".json")).write_text(content)
    return path


def examine(folder: Path, **env: str) -> Python:
    machine = LiveMachine({"PATH": os.environ["PATH"], **env})
    return python(machine, str(folder / "bin" / "python"))


def test_an_environment_tells_of_itself(bare_venv: Path, site: Path) -> None:
    dist_info(
        site,
        "Torch.NPU",
        "2.13.0",
        "Requires-Dist: torch==2.13.0.*",
        "Requires-Dist: numpy; python_version < '3.9'",
        "Requires-Dist: pytest; extra == 'dev'",
        "Requires-Python: >=3.8",
        INSTALLER="pip\n",
    )
    python = examine(bare_venv)
    assert python.version == ".".join(map(str, sys.version_info[:3]))
    assert python.executable == str(bare_venv / "bin" / "python")
    assert python.prefix == str(bare_venv)
    assert python.base_prefix == sys.base_prefix
    assert python.machine == os.uname().machine
    assert str(site) in python.sys_path
    assert "" not in python.sys_path
    assert not python.own
    torch_npu = present(python.find("torch-npu"))
    assert (torch_npu.version, torch_npu.location) == ("2.13.0", str(site))
    assert torch_npu.requires == ("torch==2.13.0.*", "numpy; python_version < '3.9'")
    assert torch_npu.requires_python == ">=3.8"
    assert python.importable["torch"] is False


def test_files_of_a_package_are_looked_for(bare_venv: Path, site: Path) -> None:
    there = ("torch/__init__.py", "torch/lib/libc10.so")
    gone = ("torch/functional.py", "torch/lib/libtorch.so")
    left_out = ("../../../bin/torchrun", "torch/test/test_x.py", "torch/py.typed", "torch/a.pyc")
    record = "".join(
        f"{name},sha256=x,3\n" for name in (*there, *gone, "torch/empty.so", *left_out)
    )
    dist_info(site, "torch", "2.7.1", RECORD=record)
    dist_info(site, "numpy", "1.26.0", RECORD="numpy/gone.py,,\n")
    for name in (*there, "torch/empty.so"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("" if "empty" in name else "x", "utf-8")
    python = examine(bare_venv)
    torch, numpy = python.find("torch"), python.find("numpy")
    assert torch is not None
    assert numpy is not None
    assert torch.files_listed == 5
    assert torch.files_missing == (*gone, "torch/empty.so")
    assert numpy.files_listed is None, "only a few packages are looked at"


def test_the_doctors_own_interpreter_is_known() -> None:
    assert python(LiveMachine(), sys.executable).own


def test_origins_lose_their_credentials(bare_venv: Path, site: Path) -> None:
    vcs = {"vcs": "git", "commit_id": "a" * 40, "requested_revision": "core_r0.15.3"}
    url = "https://user:token@example.org/MindSpeed.git?private_token=x#egg=m"
    dist_info(
        site, "mindspeed", "0.15.3", direct_url_json=json.dumps({"url": url, "vcs_info": vcs})
    )
    local = {"url": "file:///src/Megatron-LM", "dir_info": {"editable": True}}
    dist_info(site, "megatron-core", "0.15.3", direct_url_json=json.dumps(local))
    python = examine(bare_venv)
    mindspeed, megatron = python.find("mindspeed"), python.find("megatron-core")
    assert mindspeed is not None
    assert megatron is not None
    assert mindspeed.direct_url == "https://example.org/MindSpeed.git"
    assert (mindspeed.commit, mindspeed.editable) == ("a" * 40, False)
    assert (megatron.direct_url, megatron.editable) == ("file:///src/Megatron-LM", True)


def test_a_second_copy_is_shadowed_by_the_first_on_the_path(
    bare_venv: Path, site: Path, tmp_path: Path
) -> None:
    dist_info(site, "megatron-core", "0.16.1")
    front = tmp_path / "front"
    dist_info(front, "megatron_core", "0.15.3")
    (tmp_path / "link").symlink_to(front)
    python = examine(bare_venv, PYTHONPATH=f"{front}:{tmp_path / 'link'}")
    copies = [
        (distribution.version, distribution.shadowed) for distribution in python.distributions
    ]
    assert copies == [("0.15.3", False), ("0.16.1", True)], "a link is no second copy"


def test_old_eggs_and_leftovers(bare_venv: Path, site: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "MindSpeed"
    egg = checkout / "mindspeed.egg-info"
    egg.mkdir(parents=True)
    (egg / "PKG-INFO").write_text("Name: mindspeed\nVersion: 0.12.1\n\n")
    (egg / "requires.txt").write_text(
        "numpy<=1.26.0\n\n[:python_version < '3.9']\nfoo\n\n[dev]\nbar\n"
    )
    (site / "mindspeed.egg-link").write_text(f"{checkout}\n.")
    (site / "easy-install.pth").write_text(f"{checkout}\n")
    (site / "single-1.0-py3.10.egg-info").write_text("Name: single\nVersion: 1.0\n")
    dist_info(site, "~orch", "2.1")
    (site / "empty-3.0.dist-info").mkdir()
    python = examine(bare_venv)
    assert {distribution.name: distribution.version for distribution in python.distributions} == {
        "mindspeed": "0.12.1",
        "single": "1.0",
        "empty": "3.0",
    }
    mindspeed = present(python.find("mindspeed"))
    assert mindspeed.editable
    assert mindspeed.location == str(checkout)
    assert mindspeed.requires == ("numpy<=1.26.0", "foo; python_version < '3.9'")


def test_modules_are_looked_up_and_never_imported(bare_venv: Path, site: Path) -> None:
    for name in ("decorator", "google/protobuf", "scipy"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("raise SystemExit('imported')")
    (site / "yaml.py").write_text("raise SystemExit('imported')")
    importable = examine(bare_venv).importable
    names = [name for name, can in importable.items() if can]
    assert [name for name in names if name not in sys.stdlib_module_names] == [
        "decorator",
        "google.protobuf",
        "scipy",
        "yaml",
    ]


def test_a_broken_finder_hides_nothing(bare_venv: Path, site: Path) -> None:
    # Debian's own sitecustomize of Python comes before this.
    (site / "noisy.pth").write_text("import noisy\n")
    (site / "noisy.py").write_text(
        "import sys\n"
        "print('noise')\n"
        "class F:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'yaml': raise ValueError(name)\n"
        "sys.meta_path.insert(0, F())\n"
    )
    (site / "yaml.py").write_text("")
    assert examine(bare_venv).importable["yaml"]


def test_hostile_metadata_breaks_nothing(bare_venv: Path, site: Path) -> None:
    folder = dist_info(site, "evil", "1\x1b[31m", direct_url_json='{"url": 3, "vcs_info": []}')
    (folder / "INSTALLER").mkdir()
    (site / "binary-1.dist-info").mkdir()
    (site / "binary-1.dist-info" / "METADATA").write_bytes(b"\xff\x00Name: \xff\nVersion")
    os.mkfifo(site / "pipe-1.egg-info")
    os.mkdir(os.fsencode(site) + b"/\xff\xfe-1.dist-info")
    python = examine(bare_venv)
    assert len(python.distributions) == 4
    os.rmdir(os.fsencode(site) + b"/\xff\xfe-1.dist-info")


# --- which interpreter


def test_the_active_environment_comes_before_path(bare_venv: Path, tmp_path: Path) -> None:
    other = tmp_path / "bin"
    other.mkdir()
    (other / "python").symlink_to(sys.executable)
    path = str(other)
    (other / "python3").write_text("not executable")
    assert active(LiveMachine({"PATH": path})) == f"{other}/python"
    assert active(LiveMachine({"PATH": path, "CONDA_PREFIX": "/nowhere"})) == f"{other}/python"
    conda = {"PATH": path, "CONDA_PREFIX": str(bare_venv)}
    assert active(LiveMachine(conda)) == f"{bare_venv}/bin/python"
    both = {"VIRTUAL_ENV": str(bare_venv), "CONDA_PREFIX": "/nowhere"}
    assert active(LiveMachine(both)) == f"{bare_venv}/bin/python"


@pytest.mark.parametrize("by", ["--python", "VIRTUAL_ENV", "CONDA_PREFIX", "PATH"])
def test_it_is_known_what_named_the_interpreter(bare_venv: Path, tmp_path: Path, by: str) -> None:
    env = {"PATH": f"{bare_venv}/bin"} if by == "PATH" else {by: str(bare_venv), "PATH": "/bin"}
    named = f"{bare_venv}/bin/python" if by == "--python" else None
    facts = python(LiveMachine(env), named)
    assert (facts.by, facts.prefix, facts.own) == (by, str(bare_venv), False)
    assert facts.doctor is not None
    assert facts.doctor.executable == sys.executable
    here = [name for name in TRAINING if importlib.util.find_spec(name) is not None]
    assert list(facts.doctor.packages) == here
    recording = RecordingMachine(LiveMachine(env))
    python(recording, named)
    recording.save(tmp_path / "machine", origin="o", python="", clean=str, env=env)
    assert python(ReplayMachine(tmp_path / "machine"), named).doctor == facts.doctor


def test_no_interpreter_is_a_gap_and_a_wrong_one_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="no active Python"):
        python(LiveMachine({"PATH": str(tmp_path)}))
    with pytest.raises(DataError, match="no such interpreter"):
        python(LiveMachine(), str(tmp_path / "python"))
    with pytest.raises(DataError, match="bin/python"):
        python(LiveMachine(), str(tmp_path))


def test_a_folder_stands_for_its_environment(bare_venv: Path, site: Path) -> None:
    assert site.is_dir()
    assert python(LiveMachine(), f"{bare_venv}/").prefix == str(bare_venv)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit 3", "status 3"),
        ("echo cannot open shared object >&2; exit 127", "cannot open shared object"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("echo hello", "no answer of a Python interpreter: hello"),
        (f"echo; echo '{SENTINEL}{{\"version\": 3}}'", "no answer"),
        (f"echo; echo '{SENTINEL}{{\"version\":'", "no answer"),
        ("exec yes", "without end"),
    ],
)
def test_an_interpreter_that_fails_is_a_gap_with_its_reason(
    program: Program, text: str, reason: str
) -> None:
    with pytest.raises(Unknown, match=reason):
        python(LiveMachine(), program(text))


def test_an_interpreter_that_hangs_is_a_gap(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ascend_doctor.collect.python.DEADLINE", 0.3)
    with pytest.raises(Unknown, match="did not answer"):
        python(LiveMachine(), program("exec sleep 60"))


def test_an_interpreter_that_is_too_old_says_so(bare_venv: Path, site: Path) -> None:
    (site / "old.pth").write_text("import sys; sys.version_info = (2, 7, 18)\n")
    with pytest.raises(Unknown, match=r"it is Python 2\.7"):
        examine(bare_venv)


def test_the_current_folder_is_not_searched(
    bare_venv: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site.is_dir()
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the current folder')")
    monkeypatch.chdir(tmp_path)
    python = examine(bare_venv)
    assert str(tmp_path) not in python.sys_path
    assert str(tmp_path) in examine(bare_venv, PYTHONPATH="/nowhere:").sys_path


# --- the script


def test_the_script_is_valid_for_python_3_6() -> None:
    text = Path(interpreter_script.__file__).read_text("utf-8")
    ast.parse(text, feature_version=(3, 6))
    assert "from __future__" not in text, "annotations came with 3.7"


def test_the_script_imports_nothing_that_is_slow(bare_venv: Path, site: Path) -> None:
    assert site.is_dir()
    text = "import sys; exec(sys.argv.pop(1)); print(sorted(sys.modules))"
    script = Path(interpreter_script.__file__).read_text("utf-8").replace("__main__", "never")
    done = run_program([bare_venv / "bin" / "python", "-c", text, script])
    slow = {"typing", "importlib.metadata", "importlib.util", "subprocess", "email", "torch"}
    assert not slow & set(ast.literal_eval(done.stdout))


def test_an_answer_is_replayed(bare_venv: Path, site: Path, tmp_path: Path) -> None:
    dist_info(site, "torch", "2.13.0+cpu")
    recorder = RecordingMachine(LiveMachine({"PATH": os.environ["PATH"]}))
    seen = python(recorder, str(bare_venv / "bin" / "python"))
    recorder.save(tmp_path / "machine", origin="a test", python="", clean=str, env={})
    replayed = python(ReplayMachine(tmp_path / "machine"), str(bare_venv / "bin" / "python"))
    assert replayed == seen


@pytest.mark.slow
@given(st.text())
def test_parsers_take_any_text(text: str) -> None:
    parse_interpreter(text)
    parse_interpreter(f"\n{SENTINEL}{text}")
    parse_headers(text)
    parse_requires(text.splitlines())
    parse_direct_url(text)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["url", "vcs_info", "dir_info", "version", "distributions"]), inner
            )
        ),
    )
)
def test_parsers_take_any_json(value: object) -> None:
    text = json.dumps(value)
    parse_direct_url(text)
    parse_interpreter(f"\n{SENTINEL}{text}\n")


def test_deep_json_is_no_answer() -> None:
    assert parse_interpreter(f"\n{SENTINEL}{'[' * 100000}") is None
    assert parse_direct_url("[" * 100000)["direct_url"] is None


# --- a real environment


def test_a_real_environment_has_torch_and_torch_npu(examined_python: Path) -> None:
    facts = python(LiveMachine(), str(examined_python))
    torch, torch_npu = facts.find("torch"), facts.find("torch-npu")
    assert torch is not None
    assert torch_npu is not None
    assert any(need.startswith("torch==") for need in torch_npu.requires)
    assert facts.importable["torch_npu"]
