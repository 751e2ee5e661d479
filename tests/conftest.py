import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ascend_doctor import cli, language
from ascend_doctor.simulator import Tree, build
from tests import forks
from tests.overtime import Overtime
from tests.programs import run_program
from tests.pseudo import PseudoDictionary

settings.register_profile(
    "default",
    deadline=None,  # tests never assert times
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("default")

# `python -m tests.acceptance` runs these; pytest collects them where the folder is named.
collect_ignore = ["acceptance"]

# A compiled catalogue has mebibytes; patterns of a test compile at once.
_LEAST_BYTES = 1 << 16
_MAX_LASTING = 12
_LONGEST = "test_docs_run.py"
QUIET = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
Command = Callable[..., "subprocess.CompletedProcess[str]"]


# Fixtures that need torch, a compiler, a cluster, root, a built package or a stack.
SLOW = {
    *("examined_python", "simulator_cache", "simulated_python", "cluster", "hosts", "dist"),
    *("world", "same", "prepared", "theirs"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with slow fixtures; their files come first, the longest before all."""
    for item in items:
        if SLOW & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.name != _LONGEST, item.path not in slow))


@pytest.fixture(scope="session", autouse=True)
def overtime(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """No test holds up the others of its worker."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytestconfig.pluginmanager.register(Overtime(tmp_path_factory.getbasetemp()))


@pytest.fixture(scope="session")
def shared_cache(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Path]:
    """What the doctor reads once and keeps: for each of its commands that is a second.

    Compiled patterns, whose names are digests of their texts, stay for the next run.
    """
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    compiled = cache / "ascend-doctor" / "patterns"
    if getattr(pytestconfig, "cache", None) is None:
        yield cache
        return
    lasting = pytestconfig.cache.mkdir("patterns")
    _copy_new(lasting, compiled)
    yield cache
    _copy_new(compiled, lasting)
    with contextlib.suppress(FileNotFoundError):  # another worker's end does the same
        for old in sorted(lasting.iterdir(), key=lambda path: path.stat().st_mtime)[:-_MAX_LASTING]:
            old.unlink()


def _copy_new(source: Path, target: Path) -> None:
    for path in source.glob("*.msgpack"):
        copy = target / path.name
        if path.stat().st_size > _LEAST_BYTES and not copy.exists():
            target.mkdir(0o700, parents=True, exist_ok=True)
            shutil.copy(path, unfinished := copy.with_suffix(f".{os.getpid()}"))
            unfinished.rename(copy)


@pytest.fixture(scope="session")
def simulator_cache(shared_cache: Path) -> Path:
    """Trees of the simulated NPU, each built once for all tests; commands look here by default."""
    return shared_cache / "ascend-doctor" / "simulator"


@pytest.fixture(scope="session")
def empty_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for each test; one that a test left empty is the next one's, too."""

    def homes() -> Iterator[Path]:
        while True:
            home = tmp_path_factory.mktemp("home")
            while not any(home.iterdir()):
                yield home

    return homes()


@pytest.fixture(autouse=True)
def english_afterwards() -> Iterator[None]:
    """A test that chose a language chose it for itself."""
    yield
    language.choose("en")


@pytest.fixture(autouse=True)
def no_real_home(
    empty_homes: Iterator[Path], shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Every test has a home of its own, and no settings of the machine that runs it."""
    home = next(empty_homes)
    monkeypatch.setenv("HOME", str(home))
    for name in list(os.environ):
        if name.startswith(("XDG_", "GIT_", "ASCEND_", "HCCL_", "NO_COLOR", "FORCE_COLOR")) and (
            not name.startswith("ASCEND_DOCTOR_TEST_")
        ):
            monkeypatch.delenv(name)
    # With it, as in many images, simultaneous lines of ranks are written in parts.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):  # what is expected is English
        if os.environ.get(name, "").startswith("zh"):
            monkeypatch.setenv(name, "C.UTF-8")
    return home


@pytest.fixture
def pseudo_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text that passes the catalogue is translated."""
    monkeypatch.setattr(language, "dictionary", lambda _: PseudoDictionary())
    language.choose("zh")


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command line in this process; gives exit code, stdout and stderr."""

    def run(*arguments: str, cwd: str | Path = ".") -> object:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["ascend-doctor", *arguments])
        return subprocess.CompletedProcess(arguments, cli.run([*arguments]), *capfd.readouterr())

    return run  # type: ignore[return-value]


@pytest.fixture
def installed() -> Command:
    """The same by the installed command, where its start, its end or its environment matters."""
    program = Path(sys.executable).with_name("ascend-doctor")

    def run(*arguments: str, deadline: float = 300, **options: Any) -> object:
        return run_program([program, *arguments], check=False, timeout=deadline, **options)

    return run  # type: ignore[return-value]


@pytest.fixture(scope="session")
def examined_python() -> Path:
    """An interpreter with torch and torch_npu, named by ASCEND_DOCTOR_TEST_PYTHON."""
    named = os.environ.get("ASCEND_DOCTOR_TEST_PYTHON")
    if not named:
        pytest.skip("ASCEND_DOCTOR_TEST_PYTHON names no interpreter with torch and torch_npu")
    return Path(named)


@pytest.fixture(scope="session")
def built(examined_python: Path, simulator_cache: Path) -> Tree:
    return build(examined_python, cache=simulator_cache)


@pytest.fixture(scope="session")
def simulated_python(
    examined_python: Path, built: Tree, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The examined interpreter, whose processes have torch_npu on a simulated machine."""
    env = built.environment(os.environ | QUIET, soc="Ascend910B3", devices=8, memory_bytes=1 << 30)
    folder = tmp_path_factory.mktemp("forks") / "bin"
    folder.mkdir()
    with forks.interpreter(examined_python, folder, env, "torch_npu") as path:
        yield path
