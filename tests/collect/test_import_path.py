import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.checkout import checkout, parse_head, parse_packed_refs
from ascend_doctor.collect.import_path import import_path, parse_version
from ascend_doctor.collect.package_copies import parse_finder
from ascend_doctor.collect.python import python
from ascend_doctor.facts import ImportPath, PackageCopy
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import RecordingMachine, ReplayMachine
from tests.present import present
from tests.programs import run_program

PACKAGE_INFO = """
MAJOR = 0
MINOR = {minor}
PATCH = 3
PRE_RELEASE = '{suffix}'
VERSION = (MAJOR, MINOR, PATCH, PRE_RELEASE)
__shortversion__ = '.'.join(map(str, VERSION[:3]))
__version__ = '.'.join(map(str, VERSION[:3])) + ''.join(VERSION[3:])
"""
# setuptools' editable finder: its names and order, working.
FINDER = """
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

MAPPING: dict[str, str] = {mapping!r}
NAMESPACES: dict[str, list[str]] = {namespaces!r}
PATH_PLACEHOLDER = {name!r} + ".__path_hook__"

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        place = Path(MAPPING.get(name, '/nowhere'), '__init__.py')
        return spec_from_file_location(name, place) if place.exists() else None

class Namespaces:
    @classmethod
    def find_spec(cls, name, target=None):
        if name not in NAMESPACES:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [*NAMESPACES[name], PATH_PLACEHOLDER]
        return spec

def hook(path):
    if path != PATH_PLACEHOLDER:
        raise ImportError
    return Namespaces

sys.meta_path.append(Finder)
sys.path_hooks.append(hook)
if NAMESPACES:
    sys.path.append(PATH_PLACEHOLDER)
"""
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


def megatron(folder: Path, *parts: str, minor: int = 15, suffix: str = "") -> Path:
    """As Megatron-LM has it: no __init__.py at the top."""
    root = folder / "megatron"
    for part in parts:
        (root / part).mkdir(parents=True, exist_ok=True)
        (root / part / "__init__.py").write_text("")
    if "core" in parts:
        (root / "core" / "package_info.py").write_text(
            PACKAGE_INFO.format(minor=minor, suffix=suffix)
        )
    return root


def package(folder: Path, name: str, text: str = "") -> Path:
    root = folder / name
    root.mkdir(parents=True, exist_ok=True)
    (root / "__init__.py").write_text(text)
    return root


def editable(site: Path, name: str, mapping: dict[str, str], **namespaces: list[str]) -> Path:
    stem = f"__editable___{name}_1_0_finder"
    finder = site / f"{stem}.py"
    finder.write_text(FINDER.format(mapping=mapping, namespaces=namespaces, name=stem))
    (site / f"__editable__.{name}-1.0.pth").write_text(f"import {stem}\n")
    return finder


def collect(bare_venv: Path, *entries: Path | str, **env: str) -> ImportPath:
    env |= {"PATH": os.environ["PATH"]}
    if entries:
        env["PYTHONPATH"] = ":".join(map(str, entries))
    machine = LiveMachine(env)
    return import_path(machine, python(machine, str(bare_venv / "bin" / "python")))


def list_imports(bare_venv: Path, name: str, *entries: Path) -> list[str]:
    """Python's own answer: a file, or a namespace's folders."""
    text = (
        "import importlib.util as u, json, sys; s = u.find_spec(sys.argv[1]); "
        "p = [s.origin] if s.origin else list(s.submodule_search_locations); print(json.dumps(p))"
    )
    done = run_program(
        [bare_venv / "bin" / "python", "-c", text, name],
        env={"PYTHONPATH": ":".join(map(str, entries))},
        cwd="/",
    )
    return [path for path in json.loads(done.stdout) if "__path_hook__" not in path]


def brief(copies: Sequence[PackageCopy]) -> list[tuple[str, str]]:
    return [(package.path, package.kind) for package in copies]


# --- who wins


def test_portions_of_a_namespace_are_joined_in_order(
    bare_venv: Path, site: Path, tmp_path: Path
) -> None:
    first = megatron(tmp_path / "front", "training", minor=12)
    second = megatron(tmp_path / "Megatron-LM", "core", "training")
    third = megatron(site, "core", minor=16, suffix="rc0")
    entries = (tmp_path / "front", tmp_path / "Megatron-LM")
    packages = collect(bare_venv, *entries).find("megatron").copies
    assert [package.path for package in packages] == list_imports(bare_venv, "megatron", *entries)
    assert brief(packages) == [(str(path), "namespace") for path in (first, second, third)]
    assert [package.parts for package in packages] == [
        ("training",),
        ("core", "training"),
        ("core",),
    ]
    assert [package.versions for package in packages] == [
        {},
        {"core": "0.15.3"},
        {"core": "0.16.3rc0"},
    ]
    assert [package.entry for package in packages] == [*map(str, entries), str(site)]


def test_a_regular_package_behind_hides_portions_in_front(
    bare_venv: Path, site: Path, tmp_path: Path
) -> None:
    portion = megatron(tmp_path / "Megatron-LM", "core")
    regular = package(site, "megatron")
    packages = collect(bare_venv, tmp_path / "Megatron-LM").find("megatron").copies
    assert list_imports(bare_venv, "megatron", tmp_path / "Megatron-LM") == [
        f"{regular}/__init__.py"
    ]
    assert brief(packages) == [(str(regular), "package"), (str(portion), "namespace")]


def test_a_module_is_a_copy_and_a_package_beside_it_wins(
    bare_venv: Path, site: Path, tmp_path: Path
) -> None:
    (tmp_path / "apex.py").write_text("__version__ = '0.1'")
    (site / "apex.cpython-39-x86_64-linux-gnu.so").write_text("")
    (site / "apexes.py").write_text("")
    (site / "triton.py").write_text("")
    package(site, "triton", "__version__ = '3.2.0'\n")
    import_path = collect(bare_venv, tmp_path)
    apex = import_path.find("apex").copies
    assert brief(apex)[0] == (str(tmp_path / "apex.py"), "module")
    assert apex[0].versions == {"apex": "0.1"}
    assert apex[1].path.endswith("linux-gnu.so")
    assert brief(import_path.find("triton").copies) == [(str(site / "triton"), "package")]
    assert list_imports(bare_venv, "apex", tmp_path) == [str(tmp_path / "apex.py")]


def test_an_editable_install_comes_after_the_path(
    bare_venv: Path, site: Path, tmp_path: Path
) -> None:
    source = package(tmp_path / "MindSpeed", "mindspeed")
    (tmp_path / "MindSpeed" / "setup.py").write_text("__version__ = '0.15.3'\nsetup()\n")
    finder = editable(site, "mindspeed", {"mindspeed": str(source)})
    (only,) = collect(bare_venv).find("mindspeed").copies
    assert list_imports(bare_venv, "mindspeed") == [f"{source}/__init__.py"]
    assert (only.path, only.kind, only.entry) == (str(source), "editable", str(finder))
    assert only.versions == {"mindspeed": "0.15.3"}
    folder = tmp_path / "run"
    (folder / "mindspeed").mkdir(parents=True)
    packages = collect(bare_venv, folder).find("mindspeed").copies
    assert list_imports(bare_venv, "mindspeed", folder) == [str(folder / "mindspeed")]
    assert brief(packages)[0] == (str(folder / "mindspeed"), "namespace")


def test_an_editable_namespace_is_a_portion(bare_venv: Path, site: Path, tmp_path: Path) -> None:
    whole = megatron(tmp_path / "whole", "core", "training")
    editable(site, "megatron_lm", {}, megatron=[str(whole)])
    front = megatron(tmp_path / "front", "core")
    packages = collect(bare_venv, tmp_path / "front").find("megatron").copies
    assert list_imports(bare_venv, "megatron", tmp_path / "front") == [str(front), str(whole)]
    assert brief(packages) == [(str(front), "namespace"), (str(whole), "namespace")]


def test_an_editable_sub_package_brings_only_itself(
    bare_venv: Path, site: Path, tmp_path: Path
) -> None:
    root = megatron(tmp_path / "lm", "core", "training")
    editable(site, "megatron_core", {"megatron.core": f"{root}/core"}, megatron=[])
    (only,) = collect(bare_venv).find("megatron").copies
    assert (only.path, only.kind, only.parts) == (str(root), "namespace", ("core",))
    assert only.versions == {"core": "0.15.3"}


def test_an_editable_install_whose_source_is_gone_is_none(
    bare_venv: Path, site: Path, tmp_path: Path
) -> None:
    editable(site, "mindspeed", {"mindspeed": str(tmp_path / "gone")})
    assert collect(bare_venv).find("mindspeed").copies == ()


def test_a_place_reached_twice_is_one_copy(bare_venv: Path, site: Path, tmp_path: Path) -> None:
    assert site.is_dir()
    megatron(tmp_path / "lm", "core")
    (tmp_path / "link").symlink_to(tmp_path / "lm")
    packages = collect(bare_venv, tmp_path / "lm", tmp_path / "link").find("megatron").copies
    assert len(packages) == 1


def test_what_pip_leaves_behind_is_no_part(bare_venv: Path, site: Path) -> None:
    root = megatron(site, "training")
    (root / "core" / "datasets").mkdir(parents=True)
    (root / "core" / "datasets" / "helpers_cpp.so").write_text("")
    (root / "__pycache__").mkdir()
    (root / "legacy" / "model").mkdir(parents=True)
    (root / "legacy" / "model" / "__init__.py").write_text("")
    (only,) = collect(bare_venv).find("megatron").copies
    assert only.parts == ("legacy", "training"), "legacy has code though no __init__.py"


def test_pythonpath_is_kept_as_it_stands(bare_venv: Path, site: Path, tmp_path: Path) -> None:
    assert site.is_dir()
    import_path = collect(bare_venv, "", tmp_path, "", "/nowhere", "relative/gone")
    assert import_path.pythonpath == ("", str(tmp_path), "", "/nowhere", "relative/gone")
    assert import_path.absent == ("/nowhere", "relative/gone")
    assert collect(bare_venv).pythonpath == ()


# --- versions


@pytest.mark.parametrize(
    ("source", "version"),
    [
        (PACKAGE_INFO.format(minor=15, suffix=""), "0.15.3"),
        (PACKAGE_INFO.format(minor=17, suffix="rc0"), "0.17.3rc0"),
        ("__version__ = '0.15.3'\n", "0.15.3"),
        ('__version__: str = "2.13.0+cpu"\n', "2.13.0+cpu"),
        ('setup(\n    name="x",\n    version="0.1.0",\n)', "0.1.0"),
        ("__version__ = str(metadata.version('transformer_engine'))", None),
        ("version = {attr = 'x'}", None),
        ("MAJOR = 1\nMINOR = 2\n", None),
        ("# __version__ = '9'\n", None),
        ("", None),
    ],
)
def test_versions_are_constants_of_the_source(source: str, version: str | None) -> None:
    assert parse_version(source) == version


def test_setup_py_beside_an_installed_package_is_not_its_own(bare_venv: Path, site: Path) -> None:
    package(site, "mindspeed")
    (site / "setup.py").write_text("__version__ = '9'")
    (only,) = collect(bare_venv).find("mindspeed").copies
    assert only.versions == {}


# --- checkouts


def git(folder: Path, *arguments: str) -> str:
    done = run_program([*GIT, "-C", folder, *arguments])
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "Megatron-LM"
    megatron(root, "core")
    git(tmp_path, "init", "-q", "-b", "core_r0.15.0", str(root))
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "tag", "core_v0.15.3")
    git(root, "tag", "-a", "annotated", "-m", "two")
    git(root, "branch", "team/line")
    return root


def state(path: Path) -> tuple[str | None, str | None, tuple[str, ...], bool | None]:
    git = present(checkout(LiveMachine(), str(path)))
    return git.commit, git.branch, git.refs, git.dirty


def test_a_checkout_tells_commit_branch_and_tags(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    inside = repository / "megatron" / "core"
    refs = ("core_r0.15.0", "core_v0.15.3", "team/line")
    assert state(inside) == (commit, "core_r0.15.0", refs, False)
    git(repository, "pack-refs", "--all")
    packed = ("annotated", *refs)
    assert state(inside) == (commit, "core_r0.15.0", packed, False)
    git(repository, "checkout", "-q", "core_v0.15.3")
    assert state(inside) == (commit, None, packed, False)


def test_changes_of_tracked_files_make_it_dirty(repository: Path) -> None:
    (repository / "new.py").write_text("")
    assert state(repository)[3] is False
    (repository / "megatron" / "core" / "__init__.py").write_text("changed")
    assert state(repository)[3] is True


def test_worktrees_and_clones(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"), "team/line")
    assert state(tmp_path / "tree")[:2] == (commit, "team/line")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    facts = present(checkout(LiveMachine(), str(tmp_path / "shallow")))
    assert "core_r0.15.0" in facts.refs


def test_variables_of_git_do_not_mislead(repository: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "GIT_DIR": str(tmp_path / "other"), "GIT_WORK_TREE": "/"}
    git = present(checkout(LiveMachine(env), str(repository)))
    assert git.dirty is False


def test_modules_of_python_itself_hide_nothing() -> None:
    machine = LiveMachine({"PATH": os.environ["PATH"]})
    facts = present(python(machine, sys.executable))
    assert "_ssl" in facts.importable
    hidden = import_path(machine, facts).hidden
    assert not [name for name in hidden if name.name in sys.stdlib_module_names]


RUNS = {
    "core.fsmonitor": "PROGRAM",
    "core.hooksPath": "HOOKS",
    "core.sshCommand": "PROGRAM",
    "core.pager": "PROGRAM",
    "core.gitProxy": "PROGRAM",
    "core.askPass": "PROGRAM",
    "diff.external": "PROGRAM",
    "diff.any.textconv": "PROGRAM",
    "diff.any.command": "PROGRAM",
    "filter.any.clean": "PROGRAM",
    "filter.any.smudge": "PROGRAM",
    "filter.any.process": "PROGRAM",
    "filter.a=b c.clean": "PROGRAM",
    "include.path": "INCLUDED",
    "alias.status": "!PROGRAM",
    "gpg.program": "PROGRAM",
    "credential.helper": "!PROGRAM",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("where", ["config", "worktree", "home"])
def test_a_program_named_by_a_checkout_or_a_home_is_not_run(
    repository: Path, tmp_path: Path, name: str, where: str, no_real_home: Path
) -> None:
    program, hooks, included = (tmp_path / name for name in ("program", "hooks", "included"))
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / hook).symlink_to(program)
        (repository / ".git" / "hooks" / hook).unlink(missing_ok=True)
        (repository / ".git" / "hooks" / hook).symlink_to(program)
    included.write_text(f'[core]\nfsmonitor = {program}\n[filter "any"]\nclean = {program}\n')
    (repository / ".gitattributes").write_text("* filter=any diff=any\n")
    (repository / ".git" / "info" / "attributes").write_text('*.py "filter=a=b c"\n* filter=any\n')
    value = RUNS[name].replace("PROGRAM", str(program)).replace("HOOKS", str(hooks))
    value = value.replace("INCLUDED", str(included))
    if where == "home":
        subprocess.run(["git", "config", "--global", name, value], check=True)
        assert (no_real_home / ".gitconfig").is_file()
    else:
        git(repository, "config", "extensions.worktreeConfig", "true")
        git(repository, "config", "--worktree" if where == "worktree" else "--local", name, value)
    # The index times no longer agree: content must be compared.
    for path in repository.rglob("*.py"):
        os.utime(path, (1, 1))
    (tmp_path / "ran").unlink(missing_ok=True)
    assert state(repository)[3] is False
    assert not (tmp_path / "ran").exists()


def test_what_a_filter_would_convert_is_not_called_a_change(repository: Path) -> None:
    git(repository, "config", "filter.lfs.clean", "cat")
    (repository / "megatron" / "core" / "__init__.py").write_text("changed")
    assert state(repository)[3] is None


def test_the_index_stays_as_it_was(repository: Path) -> None:
    index = repository / ".git" / "index"
    before = index.read_bytes(), index.stat().st_mtime_ns
    for path in repository.rglob("*.py"):
        os.utime(path, (1, 1))
    state(repository)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_git_is_not_asked_about_a_checkout_of_another_user(repository: Path) -> None:
    os.chown(repository, 12345, 12345)
    commit, branch, _, dirty = state(repository)
    assert (len(commit or ""), branch, dirty) == (40, "core_r0.15.0", None)


def test_an_environment_inside_a_checkout_is_no_part_of_it(repository: Path) -> None:
    folder = repository / ".venv" / "lib" / "python3.11" / "site-packages" / "megatron"
    folder.mkdir(parents=True)
    assert checkout(LiveMachine(), str(folder)) is None


def test_a_broken_checkout_tells_what_it_can(repository: Path) -> None:
    (repository / ".git" / "HEAD").write_bytes(b"\xff\x00 nothing")
    (repository / ".git" / "packed-refs").write_text("zz\n^\n")
    assert state(repository) == (None, None, (), None)
    without_git = present(checkout(LiveMachine({"PATH": "/nowhere"}), str(repository)))
    assert without_git.dirty is None


def test_two_names_of_one_checkout_ask_git_once(
    bare_venv: Path, site: Path, repository: Path, tmp_path: Path
) -> None:
    assert site.is_dir()
    package(repository, "megatron_adaptor")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(repository)}
    recorder = RecordingMachine(LiveMachine(env))
    examined = python(recorder, str(bare_venv / "bin" / "python"))
    seen = import_path(recorder, examined)
    assert len([import_name for import_name in seen.names if import_name.copies[0].git]) == 2
    recorder.save(tmp_path / "machine", origin="a test", python="", clean=str, env=env)
    text = (tmp_path / "machine" / "machine.yaml").read_text()
    assert text.count("name: git status") == 1
    assert import_path(ReplayMachine(tmp_path / "machine"), examined) == seen


# --- any text


@given(st.text())
def test_parsers_take_any_text(text: str) -> None:
    parse_version(text)
    parse_head(text)
    parse_packed_refs(text)
    parse_finder(text)
    parse_finder(
        f"MAPPING: dict[str, str] = {text}\nNAMESPACES = {text}\nPATH_PLACEHOLDER = {text}"
    )


def test_literals_of_other_types_are_no_finder() -> None:
    assert parse_finder("MAPPING = {1: 2}").mapping == {}
    assert parse_finder("NAMESPACES = ['a']").namespaces == {}
    assert parse_finder(r"MAPPING = {'a': '\d', 'b': '1'}").mapping["b"] == "1"
    assert parse_finder(f"MAPPING = {'[' * 500}").mapping == {}
