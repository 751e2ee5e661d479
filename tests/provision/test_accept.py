import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.accepted import (
    conflicts_to_accept,
    describe_accepted,
    names_without_need,
    parse_conflicts,
    relax_metadata,
)
from ascend_doctor.provision.solve import SolveQuery, solve
from ascend_doctor.provision.wheels import hash_file, requirements_of
from tests.provision import small_world
from tests.provision.asked import wishes
from tests.provision.small_world import World

CATALOG = Catalog()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """With an ms-swift that wants a NumPy which MindSpeed does not take."""
    whole = small_world.make(tmp_path_factory.mktemp("accept"))
    small_world.wheel(whole.index, "ms-swift", "4.9.0", "numpy>=2", "mcore-bridge")
    file = whole.rows / "components/ms-swift.yaml"
    rows = yaml.safe_load(file.read_text())
    need = [{"component": "mcore-bridge", "versions": "==1.4.3"}]
    need += [{"component": "numpy", "versions": ">=2"}]
    rows["releases"].append(
        {"version": "4.9.0", "requires": need, "sources": rows["releases"][0]["sources"]}
    )
    file.write_text(yaml.safe_dump(rows))
    return whole


def test_a_refusal_names_the_flag_and_the_flag_builds(world: World, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    asked = ("--framework", "ms-swift==4.9.0")
    refused = world.setup("0.15.3", prefix, *asked)
    assert refused.returncode == 1
    assert "all the same, on record in the lock: --accept ms-swift:numpy\n" in refused.stderr
    assert not (prefix / "stacks").exists()
    done = world.setup("0.15.3", prefix, *asked, "--accept", "ms-swift:numpy")
    assert "accepted: ms-swift 4.9.0 needs numpy >=2; the stack has" in done.stderr
    lock = locks.read(prefix / "current")
    assert list(lock.accepted) == ["ms-swift:numpy"]
    assert lock.wish["accept"] == "ms-swift:numpy"
    wheels = {wheel.name: wheel for wheel in lock.wheels}
    assert wheels["numpy"].version.startswith("1.")
    # The index's own file is installed, not the one shown to pip.
    (file,) = world.index.glob("ms_swift-4.9.0-*.whl")
    assert wheels["ms-swift"].sha256 == hash_file(file)
    again = world.setup("0.15.3", prefix, *asked, "--accept", "ms-swift:numpy")
    assert "skipped   environment" in again.stderr
    shutil.rmtree(prefix)


def test_what_is_no_conflict_is_refused(world: World, tmp_path: Path) -> None:
    done = world.setup("0.15.3", tmp_path, "--accept", "mindspeed:numpy", "--dry-run")
    assert done.returncode == 2
    assert "the stack meets that need" in done.stderr
    for text in ("numpy", "verl:nothing", "a:b:c"):
        with pytest.raises(DataError, match="--accept"):
            parse_conflicts(CATALOG, [text])
    assert parse_conflicts(CATALOG, ["twinkle-kit:NumPy"]) == {("twinkle", "numpy")}


@pytest.mark.slow
def test_the_flags_of_the_shipped_matrix_give_a_stack() -> None:
    machine = {"arch": "aarch64", "python": "3.11", "cann": "9.0.0"}
    query = SolveQuery(wishes=wishes(CATALOG, "0.15.3", "twinkle"), machine=machine)
    assert solve(CATALOG, query) is None
    flags = conflicts_to_accept(CATALOG, query)
    assert flags == (("twinkle", "numpy"),)
    accepted = SolveQuery(wishes=query.wishes, machine=machine, accepted=frozenset(flags))
    solution = solve(CATALOG, accepted)
    assert solution is not None
    assert ">=2.0.0,<2.3.0" not in solution.ranges["numpy"]
    assert [doubt.need.component for doubt in solution.doubts].count("numpy") == 1


@pytest.mark.slow
@pytest.mark.parametrize("newer", ["26.0.0_core_r0.12.1", "26.1.0_core_r0.12.1"])
def test_no_flag_is_named_that_is_refused_then(newer: str) -> None:
    """The search for a stack of verl ends at its CANN first, which another release of it meets."""
    asked = wishes(CATALOG, "0.12.1", "verl", f"mindspeed=={newer}")
    query = SolveQuery(wishes=asked, machine={"arch": "x86_64", "python": "3.11"})
    flags = conflicts_to_accept(CATALOG, query)
    assert flags
    accepted = frozenset(flags)
    solution = solve(CATALOG, replace(query, accepted=accepted))
    assert solution is not None
    assert len(describe_accepted(solution, accepted)) == len(flags)


def test_only_the_accepted_need_leaves_the_metadata(tmp_path: Path) -> None:
    text = (
        "Metadata-Version: 2.1\nName: a\nRequires-Dist: NumPy (>=2) ; python_version > '3'\n"
        "Requires-Dist: numpydoc\nRequires-Python: >=3\n\nRequires-Dist: numpy stays in prose\n"
    )
    names = names_without_need(CATALOG, ["twinkle:numpy"])["twinkle"]
    assert relax_metadata(text, names) == text.replace(
        "Requires-Dist: NumPy (>=2) ; python_version > '3'\n", "", 1
    )
    (tmp_path / "requirements.txt").write_text("numpy<=1.26.0\nsix\n")
    assert [*requirements_of(tmp_path, names, built=True)][:1] == ["six"]
    assert next(iter(requirements_of(tmp_path, frozenset(), built=True))).startswith("-r ")
