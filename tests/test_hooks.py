"""What the doctor loads into interpreters: all three, beside the user's own sitecustomize."""

import itertools
import os
import shutil
import sys
from pathlib import Path

import pytest

from ascend_doctor.machine.hooks import STARTUP, STARTUP_FILE, prepend_path
from ascend_doctor.precision import RECORDER
from ascend_doctor.simulator.layout import add_python
from tests.commands.test_stall_watch import watch
from tests.programs import run_program

OWN = "import sys\nsys.own = getattr(sys, 'own', 0) + 1\nname = 'own'\n"
# A program that looks for its neighbour as the hooks do, and finds them again.
CHAINING = OWN + (
    "import importlib, os\n"
    "here = os.path.dirname(os.path.abspath(__file__))\n"
    "path = list(sys.path)\n"
    "sys.path.remove(here)\n"
    "own = sys.modules.pop('sitecustomize')\n"
    "importlib.import_module('sitecustomize')\n"
    "sys.path[:] = path\n"
    "sys.modules['sitecustomize'] = own\n"
)
INSTALLS = "import sys\ndef install():\n    sys.calls = [*getattr(sys, 'calls', []), __name__]\n"
CODE = (
    "import sys\nbefore = getattr(sys, 'calls', [])\nimport torch, torch_npu\n"
    "print(before, *sys.calls, sys.own, sys.modules['sitecustomize'].name)"
)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    """PYTHONPATH of each hook, with stand-ins for what needs torch; torch itself; the user's."""
    cann, recorder, modules = tmp_path / "cann", tmp_path / "recorder", tmp_path / "modules"
    add_python(cann)
    simulator = cann / "python" / "site-packages"
    shutil.rmtree(simulator / "ascend_simulator")
    for folder, hook in ((simulator, "ascend_simulator"), (recorder, "ascend_recorder")):
        (folder / hook).mkdir(parents=True)
        (folder / hook / "__init__.py").write_text(INSTALLS)
    modules.mkdir()
    for module in ("torch", "torch_npu"):
        (modules / f"{module}.py").touch()
    stall = watch(tmp_path / "stall")["PYTHONPATH"]
    return {
        "recorder": f"{STARTUP}:{recorder}",
        "simulator": str(simulator),
        "stall": stall,
        "user": str(modules),
    }


def start(code: str, path: str, **env: str) -> str:
    done = run_program(
        [sys.executable, "-c", code],
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **env},
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    "order", [*itertools.permutations(("recorder", "simulator", "stall"))], ids=str
)
@pytest.mark.parametrize("own", [OWN, CHAINING], ids=["own", "chaining"])
def test_three_hooks_and_the_users_run_once_in_any_order(
    folders: dict[str, str], tmp_path: Path, order: tuple[str, ...], own: str
) -> None:
    (Path(folders["user"]) / "sitecustomize.py").write_text(own)
    path = ":".join(folders[name] for name in (*order, "user"))
    seen = start(CODE, path, RANK="3", LOCAL_RANK="1")
    assert seen == "[] ascend_recorder ascend_simulator 1 own"
    assert (tmp_path / "stall" / "rank-3.json").exists()


@pytest.mark.parametrize(
    ("hooks", "calls"),
    [
        (("recorder",), "ascend_recorder"),
        (("simulator",), "ascend_simulator"),
        (("stall",), ""),
        (("stall", "simulator"), "ascend_simulator"),
    ],
)
def test_only_what_stands_on_the_path_is_loaded(
    folders: dict[str, str], tmp_path: Path, hooks: tuple[str, ...], calls: str
) -> None:
    code = "import sys, torch, torch_npu; print(*getattr(sys, 'calls', []))"
    path = ":".join(folders[name] for name in (*hooks, "user"))
    assert start(code, path, RANK="3", LOCAL_RANK="1") == calls
    assert (tmp_path / "stall" / "rank-3.json").exists() == ("stall" in hooks)


def test_the_recorder_stands_beside_what_loads_it() -> None:
    startup, site = RECORDER.split(":")
    assert Path(STARTUP_FILE).parent == Path(startup)
    assert (Path(site) / "ascend_recorder" / "__init__.py").is_file()


@pytest.mark.parametrize(("rest", "path"), [(None, "a"), ("", "a"), ("b:c", "a:b:c")])
def test_a_folder_goes_before_the_others(rest: str | None, path: str) -> None:
    assert prepend_path("a", rest) == path
