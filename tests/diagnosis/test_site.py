from pathlib import Path

import pytest

from ascend_doctor.diagnosis.job import JobOptions
from ascend_doctor.diagnosis.logs import find
from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.machine.live import LiveMachine
from tests.diagnosis.logs import reader
from tests.diagnosis.test_exceptions import traceback

FIRST = "E1130 1:2 /w/lib/python3.11/torch/api.py:9] failed (exitcode: -7) local_rank: 0 "


def install(site: Path, name: str, *requires: str, **files: str) -> None:
    """A distribution, version 1.2, as pip leaves it."""
    info, rows = site / f"{name}-1.2.dist-info", []
    for path, text in {f"{name}/__init__.py": "A = 1\n", **files}.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        rows.append(f"{path},sha256=x,{len(text)}\n")
    info.mkdir()
    (info / "RECORD").write_text("".join(rows))
    asked = "".join(f"Requires-Dist: {require}\n" for require in requires)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.2\n{asked}\nRequires-Dist: none\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "lib/python3.11/site-packages"
    install(folder, "alpha", "beta>=2; python_version > '3'", "gone; extra == 'x'")
    install(folder, "beta", **{"beta/_C.so": "ELF"})
    return folder


def diagnose(site: Path, text: str) -> Diagnosis:
    log = site.parents[2] / "train.log"
    log.write_text(text)
    python = f"{site.parents[2]}/bin/python"
    options = JobOptions(machine=LiveMachine(), interpreter=python)
    return reader(options).diagnose(*find((str(log),)))


def answer(site: Path, last: str, *frames: tuple[str, ...]) -> str:
    cause = diagnose(site, traceback(last, *frames)).causes[0]
    return f"{cause.title}. {cause.cause} {cause.fix}"


def test_a_requirement_that_is_not_met_is_named(site: Path) -> None:
    last = "ImportError: cannot import name 'b' from 'beta' (/x/site-packages/beta/__init__.py)"
    text = answer(site, last, (f"{site}/alpha/__init__.py", "from beta import b"))
    assert "alpha requires beta>=2, and 1.2 is installed" in text
    assert f"{site.parents[2]}/bin/python -m pip install 'beta>=2'" in text


def test_a_library_that_is_cut_short_is_found(site: Path) -> None:
    frames = (f"{site}/beta/__init__.py", "from . import _C")
    (site / "beta/_C.so").write_text("E")
    text = answer(site, "ImportError: cannot import name 'x' from 'beta._C'", frames)
    assert "--force-reinstall --no-deps beta==1.2" in text
    python = f"{site.parents[2]}/bin/python"
    dead = diagnose(site, f"{FIRST}(pid: 7) of binary: {python}\n").unexplained[0]
    assert f"{python} -m pip install --force-reinstall --no-deps beta==1.2" in dead.reading
    (site / "beta/_C.so").write_text("ELF")
    assert diagnose(site, f"{FIRST}(pid: 7) of binary: {python}\n").unexplained[0].reading == ""


def test_a_record_that_is_damaged_says_nothing(site: Path) -> None:
    (site / "beta-1.2.dist-info/RECORD").write_text("x" * 200_000 + '"\n,,\nbeta/_C.so,,nine\n')
    last = "ImportError: cannot import name 'x' from 'beta._C'"
    assert "does not have the name x" in answer(site, last)


def test_the_owner_of_a_function_is_read_from_the_program(site: Path) -> None:
    program = site.parents[2] / "train.py"
    program.write_text("from alpha import (\n    other,\n    build,\n)\n\n\nbuild(size=1)\n")
    last = "TypeError: build() got an unexpected keyword argument 'size'"
    text = answer(site, last, (str(program), "build(size=1)"))
    assert "The call of build of alpha" in text
    assert "alpha 1.2 is installed." in text
    assert "The call of build does" in answer(site, last)


def test_a_file_of_the_program_that_hides_a_package_is_named(site: Path) -> None:
    program = site.parents[2] / "train.py"
    frame = (str(program), "import beta")
    (site.parents[2] / "beta.py").write_text("")
    (site.parents[2] / "gamma.py").write_text("")
    last = "AttributeError: module '{}' has no attribute 'build'"
    assert "Rename the file beta.py" in answer(site, last.format("beta"), frame)
    assert "define build in" in answer(site, last.format("gamma"), frame)


def test_packages_of_another_python_are_named(site: Path) -> None:
    old = str(site).replace("3.11", "3.10")
    first = ("/usr/lib/python3.11/runpy.py", "x")
    for name in ("beta", "torch"):
        frame = (f"{old}/{name}/a.py", "import _C")
        text = answer(site, f"ImportError: No module named '{name}._C'", first, frame)
        assert f"Remove {old} from PYTHONPATH" in text


def test_an_editable_installation_whose_folder_is_gone_is_named(site: Path) -> None:
    folder = site.parents[2] / "alpha-src"
    url = f'{{"dir_info": {{"editable": true}}, "url": "file://{folder}"}}'
    (site / "alpha-1.2.dist-info/direct_url.json").write_text(url)
    frame = (str(site.parents[2] / "train.py"), "import alpha")
    last = "ModuleNotFoundError: No module named 'alpha'"
    assert f"Mount {folder} again" in answer(site, last, frame)
    folder.mkdir()
    assert "Mount" not in answer(site, last, frame)


def test_a_copy_that_hides_the_installed_package_is_named(site: Path) -> None:
    copy = site.parents[2] / "vendor/alpha"
    copy.mkdir(parents=True)
    last = "ImportError: cannot import name 'b' from 'beta' (/x/site-packages/beta/__init__.py)"
    frame = (f"{copy}/core.py", "from beta import b")
    assert "Rename" not in answer(site, last, frame)
    (copy / "__init__.py").write_text("")
    assert f"Python takes alpha from {copy}" in answer(site, last, frame)


def test_metadata_that_are_gone_are_damage(site: Path) -> None:
    info = site / "beta-1.2.dist-info"
    (info / "RECORD").write_text("beta-1.2.dist-info/METADATA,sha256=x,40\n")
    last = "ValueError: Unable to compare versions for beta>=1: need=1 found=None."
    frame = (f"{site}/alpha/__init__.py", "check()")
    assert "reinstall" not in answer(site, last, frame)
    (info / "METADATA").unlink()
    assert "--force-reinstall --no-deps beta==1.2" in answer(site, last, frame)


def test_what_the_program_raised_is_no_unmet_requirement_of_its_callers(site: Path) -> None:
    frames = [(f"{site}/{name}/__init__.py", "f()", "f") for name in ("beta", "alpha")]
    own = (str(site.parents[2] / "train.py"), "row['a']", "g")
    within = diagnose(site, traceback("KeyError: 'a'", *frames)).unexplained[0].reading
    assert "alpha requires beta>=2" in within
    reading = diagnose(site, traceback("KeyError: 'a'", frames[0], own, frames[1])).unexplained
    assert "requires" not in reading[0].reading


def test_a_module_that_the_installed_package_has_is_hidden(site: Path) -> None:
    frame = (str(site.parents[2] / "train.py"), "import alpha.sub")
    last = "ModuleNotFoundError: No module named 'alpha.sub'"
    assert "shows the release" in answer(site, last, frame)
    (site / "alpha/sub.py").write_text("")
    assert "Another alpha hides the installed package" in answer(site, last, frame)
