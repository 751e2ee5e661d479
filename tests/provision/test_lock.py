import errno
import json
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.facts import LockedCheckout, LockedWheel, Snapshot, StackLock
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision import bundle
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.editable_wheel import READ, parse_declared, stand_in
from ascend_doctor.provision.git import commit_of
from ascend_doctor.provision.installed import Installed, read_installed
from ascend_doctor.provision.lock import BasePython, Checkout, Lock, Prefix, Setting, Wheel
from ascend_doctor.provision.options import Plan
from ascend_doctor.provision.plan import from_lock
from ascend_doctor.provision.running import CommandError, Runner, exclusively
from ascend_doctor.provision.sources import Mirrors, source
from ascend_doctor.provision.wheels import (
    Download,
    Pip,
    describe_wheel,
    hash_file,
    intact,
    keep,
    requirements_of,
    wheel_path,
)
from tests.programs import run_program

COMMIT, OTHER = "a" * 40, "b" * 40
MEGATRON = Checkout(
    name="megatron-lm",
    version="core_v0.15.3",
    ref="core_v0.15.3",
    commit=COMMIT,
    tree=OTHER,
    url="https://example.org/Megatron-LM.git",
    provides={"megatron-core": "0.15.3"},
)
LOCK = Lock(
    tool_version="0.1.0",
    id="core_v0.15.3-0123456789",
    created_at="2026-11-21T00:00:00+00:00",
    wish={"megatron": "0.15.3"},
    python=BasePython(version="3.11.7", tag="cp311", arch="x86_64"),
    checkouts=(MEGATRON,),
    wheels=(Wheel(name="a", version="1", file="a-1-py3-none-any.whl", sha256="c" * 64),),
    settings=(Setting(name="USE_MCORE_GDN", value="0", why="no module: of a GDN #"),),
    pythonpath=("src/megatron-lm",),
    rows={"torch": "2.13.0"},
)


def test_a_lock_reads_as_it_was_written(tmp_path: Path) -> None:
    locks.write(tmp_path / locks.FILE, LOCK)
    assert locks.read(tmp_path) == LOCK
    assert locks.read(tmp_path / locks.FILE) == LOCK
    assert "schema: 1\n" in (tmp_path / locks.FILE).read_text()
    assert [path.name for path in tmp_path.glob("*lock*")] == [locks.FILE]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema: 1", "schema: 2", "schema 2"),
        ("tool_version", "tool", "tool"),
        (COMMIT, "v0.15.3", "commit"),
        ("name: megatron-lm", "name: ../../etc", "name"),
        ("file: a-1", "file: ../a-1", "file"),
        ("c" * 64, "c" * 63, "sha256"),
        ("schema: 1", "schema: [", "ascend-doctor.lock"),
    ],
)
def test_a_lock_that_is_wrong_is_refused_with_file_and_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    file = tmp_path / locks.FILE
    locks.write(file, LOCK)
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(DataError, match=message) as refused:
        locks.read(file)
    assert str(file) in str(refused.value)


# Values that would become an option, a shell's line or a path elsewhere, by place.
HOSTILE = [
    ("ref: core_v0.15.3", f"ref: {ref}", "ref")
    for ref in (
        "--upload-pack=touch ran",
        "-x",
        "a b",
        "a..b",
        "../x",
        "a.lock",
        '"a\\nb"',
        "'$(touch ran)'",
    )
] + [
    ("url: https://example.org/Megatron-LM.git", f"url: {url}", "url")
    for url in (
        "'ext::sh -c touch% ran'",
        "--upload-pack=x",
        "-oProxyCommand=x",
        "ssh://-oProxyCommand=x/y",
        "me@-oProxyCommand=x:y",
        "ssh://me@-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x@example.org/y",
        "https://-x/y",
        "file://host/y",
        "x",
    )
]
HOSTILE += [
    ("megatron-core: 0.15.3", "'$(touch ran)': 0.15.3", "provides"),
    ("megatron-core: 0.15.3", "megatron-core: '1; touch ran'", "provides"),
    ("- src/megatron-lm", "- ../../etc", "pythonpath"),
    ("- src/megatron-lm", "- /etc", "pythonpath"),
    ("- src/megatron-lm", "- '$(touch ran)'", "pythonpath"),
    ("- src/megatron-lm", "- a:b", "pythonpath"),
    ("name: USE_MCORE_GDN", "name: LD_PRELOAD", "name"),
    ("name: USE_MCORE_GDN", "name: PATH", "name"),
    ("name: USE_MCORE_GDN", "name: BASH_ENV", "name"),
    ("name: USE_MCORE_GDN", "name: PYTHONSTARTUP", "name"),
    ("name: USE_MCORE_GDN", "name: 'a b'", "name"),
    *(
        ("name: USE_MCORE_GDN", f"name: {name}", "name")
        for name in ("FPATH", "ZDOTDIR", "GCONV_PATH", "OPENSSL_CONF", "PERL5OPT", "PAGER")
    ),
    *(
        ("name: USE_MCORE_GDN", f"name: {name}", "name")
        for name in ("ASCEND_CUSTOM_OPP_PATH", "PIP_INDEX_URL", "NODE_OPTIONS", "use_mcore_gdn")
    ),
    ("version: '1'", "version: '1 --index-url=x'", "version"),
    ("version: '1'", "version: -r/etc/passwd", "version"),
    ("file: a-1-py3", "file: -a-1-py3", "file"),
    ("tag: cp311", "tag: ../x", "tag"),
    ("megatron: 0.15.3", '"a\\e[2J": x', "wish"),
    ("torch: 2.13.0", 'torch: "\\e[2J"', "rows"),
]


@pytest.mark.parametrize(("old", "new", "message"), HOSTILE)
def test_no_field_of_a_lock_becomes_a_command(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    file = tmp_path / locks.FILE
    locks.write(file, LOCK)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=message) as refused:
        locks.read(file)
    assert "regex" not in str(refused.value)


def test_a_bundle_whose_sums_leave_something_out_is_refused(tmp_path: Path) -> None:
    locks.write(tmp_path / locks.FILE, LOCK)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "git").mkdir()
    names = (locks.FILE, "wheels/a-1-py3-none-any.whl", "git/megatron-lm.bundle")
    for name in names[1:]:
        (tmp_path / name).write_text("content")
    lines = [f"{hash_file(tmp_path / name)}  {name}\n" for name in names]
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("".join(lines))
    assert bundle.read(tmp_path) == LOCK
    for missing in range(len(names)):
        sums.write_text("".join(lines[:missing] + lines[missing + 1 :]))
        with pytest.raises(DataError, match="has no line for"):
            bundle.read(tmp_path)
    sums.write_text("")
    with pytest.raises(DataError, match="has no line for"):
        bundle.read(tmp_path)
    for outside in ("../x", "/etc/passwd"):
        sums.write_text(f"{'0' * 64}  {outside}\n")
        with pytest.raises(DataError, match="no line of sha256sum"):
            bundle.read(tmp_path)


def test_the_stack_in_use_is_switched_whole(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path / "p")
    assert prefix.current() is None
    for name in ("one", "two"):
        prefix.stack(name).mkdir(parents=True)
        prefix.switch(name)
        assert prefix.current() == prefix.stack(name)
    assert sorted(path.name for path in prefix.root.iterdir()) == ["current", "stacks"]


def test_the_prefix_is_named_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_DOCTOR_PREFIX", "/stacks here")
    assert Prefix.of(None).root == Path("/stacks here")
    assert Prefix.of("/named").root == Path("/named")


def empty(venv: str = "venv", tag: str = "cp311", arch: str = "x86_64") -> Plan:
    python = BasePython(version="3.11.2", tag=tag, arch=arch)
    lock = msgspec.structs.replace(LOCK, id="", python=python, checkouts=(), wheels=(), venv=venv)
    return Plan(lock=lock, python="/usr/bin/python3")


def test_a_plan_of_a_lock_is_exact_and_depends_on_the_wheels() -> None:
    plan = from_lock(LOCK, empty())
    assert plan.exact
    assert plan.lock.wheels == LOCK.wheels
    assert plan.lock.checkouts == LOCK.checkouts
    assert plan.lock.id.startswith("core_v0.15.3-")
    changed = msgspec.structs.replace(LOCK.wheels[0], sha256="d" * 64)
    other = from_lock(msgspec.structs.replace(LOCK, wheels=(changed,)), empty())
    assert other.lock.id != plan.lock.id
    assert from_lock(LOCK, empty()).lock.id == plan.lock.id


@pytest.mark.parametrize("wrong", [{"tag": "cp310"}, {"arch": "aarch64"}])
def test_a_lock_of_another_python_or_machine_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(DataError, match="--python"):
        from_lock(LOCK, empty(**wrong))


def test_a_moving_ref_keeps_the_commit_of_the_row_and_a_tag_must_agree() -> None:
    component = Catalog().component("megatron-lm")
    moving = msgspec.structs.replace(MEGATRON, moving=True)
    unpinned = msgspec.structs.replace(moving, commit="")
    refs = {MEGATRON.ref: OTHER}
    assert commit_of(component, moving, refs, "server") == COMMIT
    assert commit_of(component, unpinned, refs, "server") == OTHER
    with pytest.raises(DataError, match="it was moved"):
        commit_of(component, MEGATRON, refs, "server")
    wrong = msgspec.structs.replace(MEGATRON, ref="v0.16.0")
    with pytest.raises(DataError, match=r"use core_v0\.16\.0"):
        commit_of(component, wrong, refs, "server")


def test_a_row_that_is_a_commit_asks_for_no_ref() -> None:
    """verl 0.7.0 and ms-swift 3.11.3 pin commits of MindSpeed; a server lists its refs alone."""
    row = Catalog().component("mindspeed").release("f2b0977e")
    assert row is not None
    assert row.ref == row.commit
    checkout = msgspec.structs.replace(MEGATRON, ref=str(row.ref), commit=str(row.commit))
    assert commit_of(Catalog().component("mindspeed"), checkout, {}, "server") == row.commit


def drift(
    checkout: LockedCheckout, *wheels: LockedWheel, edited: tuple[str, ...] | None = ()
) -> tuple[Finding, ...]:
    lock = StackLock(
        present=True, stack="/s", checkouts=(checkout,), wheels=tuple(wheels), edited=edited
    )
    case = Case(facts=Snapshot(stack_lock=lock), catalog=Catalog())
    return judge(case, [check for check in all_checks() if check.id == "stack-lock"])


RIGHT = LockedCheckout(
    name="m", path="/s/m", ref="r", commit=COMMIT, exists=True, head=COMMIT, dirty=False
)


@pytest.mark.parametrize(
    ("change", "level", "title"),
    [
        ({}, Level.OK, "matches its lock"),
        ({"head": OTHER}, Level.ERROR, "at another commit"),
        ({"dirty": True}, Level.ERROR, "has local changes"),
        ({"dirty": None}, Level.UNKNOWN, "could not be told"),
        ({"head": None}, Level.UNKNOWN, "could not be told"),
        ({"exists": False}, Level.ERROR, "is missing"),
    ],
)
def test_drift_of_checkouts(change: dict[str, object], level: Level, title: str) -> None:
    there = LockedWheel(name="a", version="1", sha256="c" * 64, installed="1")
    findings = drift(msgspec.structs.replace(RIGHT, **change), there)
    assert max(finding.level for finding in findings) is level
    assert title in findings[0].title


@pytest.mark.parametrize(
    ("version", "digest", "level"),
    [
        ("1.0", "c" * 64, Level.OK),
        ("1.0", None, Level.OK),
        ("1.0", "d" * 64, Level.ERROR),
        ("1.0.1", "c" * 64, Level.ERROR),
        ("", None, Level.ERROR),
        ("no version", None, Level.ERROR),
    ],
)
def test_drift_of_wheels(version: str, digest: str | None, level: Level) -> None:
    wheel = LockedWheel(
        name="a", version="1", sha256="c" * 64, installed=version, found_sha256=digest
    )
    assert max(finding.level for finding in drift(RIGHT, wheel)) is level


def test_another_build_of_the_same_source_is_no_drift() -> None:
    wheel = LockedWheel(
        name="a", version="1", sha256="c" * 64, built=True, installed="1", found_sha256="d" * 64
    )
    assert [finding.level for finding in drift(RIGHT, wheel)] == [Level.OK]
    changed = msgspec.structs.replace(wheel, installed="2")
    assert max(finding.level for finding in drift(RIGHT, changed)) is Level.ERROR


def test_files_that_could_not_be_compared_are_no_pass() -> None:
    wheel = LockedWheel(name="a", version="1", sha256="c" * 64, installed="1")
    assert Level.UNKNOWN in {finding.level for finding in drift(RIGHT, wheel, edited=None)}


def test_a_lock_whose_stack_is_elsewhere_is_could_not_tell() -> None:
    nothing = msgspec.structs.replace(RIGHT, exists=False, head=None)
    wheel = LockedWheel(name="a", version="1", sha256="c" * 64)
    assert [finding.level for finding in drift(nothing, wheel)] == [Level.UNKNOWN]


def test_what_is_installed_is_read_from_folders(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.11/site-packages"
    for name, origin in (
        ("Some_Thing-1.0.0+cpu", {"archive_info": {"hashes": {"sha256": "c" * 64}}}),
        ("older-2", {"archive_info": {"hash": "sha256=" + "d" * 64}}),
        ("editable-3", {"dir_info": {"editable": True}}),
    ):
        folder = site / f"{name}.dist-info"
        folder.mkdir(parents=True)
        (folder / "direct_url.json").write_text(json.dumps({"url": "file:///x", **origin}))
    (site / "plain-4.dist-info").mkdir()
    installed = read_installed(LiveMachine({}), str(tmp_path))
    assert installed["some-thing"] == Installed("1.0.0+cpu", "c" * 64)
    assert installed["older"].sha256 == "d" * 64
    assert installed["editable"].sha256 is None
    assert installed["plain"].is_of("4.0", "anything")
    assert not installed["older"].is_of("2", "c" * 64)


def test_a_stand_in_is_a_wheel_that_names_the_checkout(tmp_path: Path) -> None:
    arguments = ("megatron-core", "0.15.3", "core_v0.15.3", Path("/s/src/megatron-lm"))
    file = stand_in(tmp_path, *arguments)
    again = stand_in(tmp_path / "again", *arguments)
    assert describe_wheel(file).name == "megatron-core"
    assert describe_wheel(file).version == "0.15.3"
    assert describe_wheel(file).sha256 == describe_wheel(again).sha256


def test_what_an_editable_checkout_asks_for(tmp_path: Path) -> None:
    assert list(requirements_of(tmp_path, frozenset(), built=True)) == ["setuptools>=64", "wheel"]
    (tmp_path / "requirements.txt").write_text("x\n")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nbuild-backend = "b"\nrequires = [\n  "pybind11[x]",\n  "ninja",\n]\n'
    )
    expected = [f"-r {tmp_path}/requirements.txt", "pybind11[x]", "ninja"]
    assert list(requirements_of(tmp_path, frozenset(), built=True)) == expected


_SETUP = """
import setuptools
print("a setup.py may print")
setuptools.setup(
    name="mind-speed", version="0.15.3", packages=setuptools.find_packages(),
    install_requires=["numpy<=1.26.0"], entry_points={"console_scripts": ["speed = mind_speed:go"]},
    MORE
)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    (folder / "mind_speed").mkdir(parents=True)
    (folder / "mind_speed/__init__.py").write_text("def go():\n    print(__file__)\n")
    (folder / "setup.py").write_text(_SETUP.replace("MORE", ""))
    return folder


@pytest.mark.slow
def test_a_checkout_with_nothing_to_build_is_installed_by_reference(
    project: Path, tmp_path: Path
) -> None:
    make = [sys.executable, "-m", "venv", str(tmp_path / "venv")]
    subprocess.run(make, check=True, timeout=120)
    (library,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (library / "setuptools.pth").write_text(sysconfig.get_path("purelib"))
    pip = Pip(folder=tmp_path / "venv", base=sys.executable, runner=Runner())
    for _ in range(2):  # over itself, too
        pip.install_editable(project, tmp_path / "scratch")
    done = run_program([tmp_path / "venv/bin/speed"])
    assert done.stdout.strip() == str(project / "mind_speed/__init__.py")
    listed = run_program([pip.python, "-m", "pip", "list", "--editable", "--format", "json"])
    package = next(
        package for package in json.loads(listed.stdout) if package["name"] == "mind-speed"
    )
    assert package["version"] == "0.15.3"
    assert package["editable_project_location"] == str(project)
    metadata = (library / "mind_speed-0.15.3.dist-info/METADATA").read_text()
    assert "Requires-Dist: numpy" in metadata
    assert sorted(path.name for path in project.iterdir()) == ["mind_speed", "setup.py"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        "ext_modules=[setuptools.Extension('x', ['x.c'])]",
        "package_dir={'': 'src'}",
        "scripts=['run.sh']",
        "cmdclass={'build_py': type('B', (setuptools.Command,), {})}",
    ],
)
def test_what_needs_a_build_is_built(more: str, project: Path) -> None:
    (project / "setup.py").write_text(_SETUP.replace("MORE", more))
    command = [sys.executable, "-W", "ignore", "-c", READ, str(project)]
    done = run_program(command)
    assert json.loads(done.stdout.splitlines()[-1])["more"]
    assert parse_declared(done.stdout) is None


def test_credentials_leave_the_url_and_travel_in_the_environment() -> None:
    repository_source = source("https://me:p%40ss@git.example.org:8443/x.git")
    assert repository_source.url == "https://git.example.org:8443/x.git"
    assert repository_source.env["GIT_CONFIG_VALUE_0"] == "https://git.example.org:8443/"
    assert "p@ss" in repository_source.secrets
    assert "p%40ss" not in repr(repository_source)
    assert source("ssh://git@example.org/x.git").url == "ssh://git@example.org/x.git"


def test_mirrors_speak_of_what_they_have(tmp_path: Path) -> None:
    (tmp_path / "Megatron-LM.git/objects").mkdir(parents=True)
    (tmp_path / "Megatron-LM.git/HEAD").write_text("ref: refs/heads/main\n")
    names = ("megatron-lm", "mindspeed", "verl")
    upstream = "https://example.org/NVIDIA/Megatron-LM.git"
    mirrors = Mirrors(["verl=https://a.org/v", str(tmp_path)], names)
    assert mirrors.source("megatron-lm", upstream).url == f"{tmp_path}/Megatron-LM.git"
    assert mirrors.source("verl", "https://b.org/verl.git").url == "https://a.org/v"
    assert mirrors.source("mindspeed", "https://b.org/M.git").url == "https://b.org/M.git"
    everything = Mirrors(["https://m.org/git/"], names)
    assert everything.source("megatron-lm", upstream).url == "https://m.org/git/Megatron-LM.git"
    with pytest.raises(DataError, match="no such folder"):
        Mirrors([str(tmp_path / "nowhere")], names)
    with pytest.raises(DataError, match="no component is called megatron"):
        Mirrors(["megatron=/x"], names)


def test_what_a_command_says_is_told_without_secrets() -> None:
    runner = Runner().hiding(["Passw0rd"])
    with pytest.raises(CommandError, match=r"error: \*\*\* is wrong / more of it$") as failed:
        runner.run(
            [
                "sh",
                "-c",
                (
                    "echo noise; echo 'error: Passw0rd is wrong' >&2;"
                    " printf 'more of it\\0' >&2; exit 3"
                ),
            ],
            title="git",
            deadline=60,
        )
    assert "noise" not in str(failed.value)
    with pytest.raises(CommandError, match="did not end within"):
        runner.run(["sleep", "60"], title="sleep", deadline=0.1)
    with pytest.raises(CommandError, match="cannot be run"):
        runner.run(["/nowhere/git"], title="git", deadline=1)


def test_commands_do_not_see_what_leads_them_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "PYTHONPATH", "PIP_TARGET"):
        monkeypatch.setenv(name, "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.org/simple")
    seen = Runner().run(["env"], title="env", deadline=60)
    assert "/elsewhere" not in seen
    assert "PIP_INDEX_URL=https://index.example.org/simple" in seen


def test_a_prefix_is_held_once(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    with exclusively(file), pytest.raises(DoctorError, match="another setup"), exclusively(file):
        pass
    with exclusively(file):
        pass
    assert file.read_text() == ""


_SETUP_THAT_IS_KILLED = """
import dataclasses, sys
from pathlib import Path
from ascend_doctor.provision.running import Runner, exclusively
with exclusively(Path(sys.argv[1])) as held:
    runner = dataclasses.replace(Runner(), held=held)
    # What setsid starts has neither the session nor, with 9 closed, the descriptor of the lock.
    script = "setsid sleep 600 & setsid sh -c 'exec sleep 600' >/dev/null 2>&1 & echo $$ >$0; wait"
    runner.run(["sh", "-c", script, sys.argv[2]], title="sh", deadline=600)
"""


def test_what_a_killed_setup_left_running_is_ended_by_the_next(tmp_path: Path) -> None:
    lock, begun = tmp_path / ".lock", tmp_path / "begun"
    bystander = subprocess.Popen(["sleep", "600"])
    first = subprocess.Popen([sys.executable, "-c", _SETUP_THAT_IS_KILLED, lock, begun])
    for _ in range(300):
        if begun.exists() and begun.read_text():
            break
        time.sleep(0.1)
    time.sleep(0.5)
    shell = psutil.Process(int(begun.read_text()))
    orphans = [shell, *shell.children(recursive=True)]
    assert len(orphans) == 3
    first.kill()
    first.wait()
    assert all(orphan.is_running() for orphan in orphans)
    with exclusively(lock):
        _, alive = psutil.wait_procs(orphans, timeout=10)
        assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@pytest.mark.parametrize("what", ["link", "second name", "pipe"])
def test_a_lock_of_a_prefix_that_is_no_file_of_its_own_is_refused(
    tmp_path: Path, what: str
) -> None:
    lock, precious = tmp_path / ".lock", tmp_path / "precious"
    precious.write_text("mine")
    if what == "link":
        lock.symlink_to(precious)
    elif what == "pipe":
        os.mkfifo(lock)
    else:
        lock.hardlink_to(precious)
    with pytest.raises(DoctorError, match=r"\.lock: "), exclusively(lock):
        pass
    assert precious.read_text() == "mine"


def test_kept_wheels_are_hashed_again_and_may_lie_on_another_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = Prefix(tmp_path / "p")
    (tmp_path / "a-1-py3-none-any.whl").write_text("content")
    real = Path.replace

    def elsewhere(self: Path, target: Path) -> Path:
        if self.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", elsewhere)
    (wheel,) = keep(prefix, [Download(tmp_path / "a-1-py3-none-any.whl")])
    assert intact(prefix, wheel)
    wheel_path(prefix, wheel).write_text("changed")
    assert not intact(prefix, wheel)
    wheel_path(prefix, wheel).unlink()
    assert not intact(prefix, wheel)


def test_a_lock_sets_what_stacks_of_the_matrix_set_and_no_more() -> None:
    names = {name for stack in Catalog().stacks for name in stack.environment}
    assert names == set(locks.SETTINGS)
