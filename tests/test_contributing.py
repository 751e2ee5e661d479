"""What a contributor starts with names what is there."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probing import manifest
from ascend_doctor.probing.manifest import manifests
from tests.probe_table import PAGE, with_table

ROOT = Path(__file__).parent.parent
CONTAINER = ROOT / ".devcontainer" / "devcontainer.json"


def test_the_development_container_starts_with_what_is_there() -> None:
    container = json.loads(CONTAINER.read_text("utf-8"))
    release = re.search(r"python:(\d+)\.(\d+)", container["image"])
    assert release
    classifiers = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f"Programming Language :: Python :: {release[1]}.{release[2]}" in classifiers
    words = shlex.split(container["postCreateCommand"])
    files = [word for word in words if "/" in word]
    assert files == ["tests/run"]
    assert all((ROOT / name).is_file() for name in files)
    option = words[words.index("tests/run") + 1]
    assert f'"{option}"' in _quote((ROOT / "tests/run").read_text("utf-8"))
    settings = container["customizations"]["vscode"]["settings"]
    assert [(ROOT / name).is_dir() for name in settings["python.testing.pytestArgs"]] == [True]


def _quote(script: str) -> str:
    return re.sub(r"= (--\w+) \]", r'= "\1" ]', script)


def test_hooks_call_tools_that_the_test_extra_brings() -> None:
    config = read_yaml(ROOT / ".pre-commit-config.yaml")
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    programs = {Path(hook["entry"].split()[0]).name for hook in hooks}
    assert programs == {"ruff", "mypy"}
    assert all(re.search(rf'"{program}\b', project) for program in programs)


TESTS = "\n".join(
    path.read_text("utf-8")
    for path in sorted((ROOT / "tests").rglob("*"))
    if path.suffix in {".py", ".yaml"}
)
WORDS = frozenset(re.findall(r"(?<=[\"'\[ ])[\w-]+(?=[\"'\],:( ])", TESTS))


@pytest.mark.parametrize("probe", manifests())
def test_a_probe_is_judged(probe: str) -> None:
    judged = {check.probe for check in all_checks()}
    assert probe in judged, f'no check reads it: @check(..., probe="{probe}") in checks/'


def test_the_table_of_probes_is_in_step() -> None:
    page = PAGE.read_text("utf-8")
    assert with_table(page) == page, "run `python -m tests.probe_table`"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "no MANIFEST, which says when the probe runs"),
        ("MANIFEST = {\n    'order': soon,\n}\n", "MANIFEST: malformed node or string"),
        ("MANIFEST = {\n    'order': 15,\n}\n", "Object missing required field `level`"),
        (
            (
                "MANIFEST = {\n'order': 15, 'level': 1, 'seconds': 9, 'seconds_cpu': 9,\n"
                "'needs': ['device'], 'does': 'a', 'on_cpu': 'b',\n}\n"
            ),
            "MANIFEST needs device, which does not run before it",
        ),
    ],
)
def test_a_probe_says_when_it_runs(
    lines: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "probes"
    shutil.copytree(ROOT / "probes", folder)
    monkeypatch.setattr(manifest, "folder", lambda _name: folder)
    (folder / "new_probe.py").write_text(f"import torch\n\n{lines}")
    with pytest.raises(DataError, match=rf"new_probe\.py: .*{re.escape(words)}"):
        manifests()


def test_a_check_has_a_test_that_names_it() -> None:
    identities = {check.id for check in all_checks()}
    unnamed = {name for name in identities if not {name, name.replace("-", "_")} & WORDS}
    assert not unnamed, "no test names these checks: add one below tests/checks"


@pytest.mark.parametrize("family", Catalog().files("hardware"))
def test_a_chip_family_says_what_checks_ask(family: str) -> None:
    row = Catalog().family(family)
    assert row.names, f"matrices/hardware/{family}.yaml: names"
    if row.training:
        named = any(name.rstrip("*") in TESTS for name in row.names)
        assert named, f"no test names a chip of {family}"
        assert row.rank_tables, f"matrices/hardware/{family}.yaml: rank_tables"
        assert row.pod, f"matrices/hardware/{family}.yaml: pod"
