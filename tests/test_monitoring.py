"""docs/monitoring and the node condition: they ask for what is printed, and are accepted."""

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest
import yaml

from ascend_doctor.findings import Level
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.merged_report import judge
from ascend_doctor.render.formats.prometheus import render
from tests.fleet.nodes import node, write
from tests.later import kubernetes_validate
from tests.programs import run_program
from tests.render.test_html import BROKEN

DOCS = Path(__file__).parent.parent / "docs"
MONITORING = DOCS / "monitoring"
RULES = yaml.safe_load((MONITORING / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
BOARD = json.loads((MONITORING / "grafana.json").read_text("utf-8"))
QUERIES = [
    *(rule["expr"] for rule in RULES),
    *(target["expr"] for panel in BOARD["panels"] for target in panel["targets"]),
]
CONTAINERFILE = DOCS / "kubernetes" / "Containerfile"
needs_hadolint = pytest.mark.skipif(not shutil.which("hadolint"), reason="needs hadolint")
needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="needs prometheus")
_SERIES = re.compile(r"(ascend_doctor_\w+)(?:\{(.*?)\})?")


@pytest.fixture
def printed(tmp_path: Path) -> str:
    """The samples of a broken node, and of a fleet with it and a missing node."""
    folder = tmp_path / "reports"
    folder.mkdir()
    write(folder, node("n0", BROKEN), node("n1"))
    files = merge(report_files([str(folder)]), frozenset())
    fleet = judge(files, expected=("gone",), fail_on=Level.ERROR, seconds=0)
    return render(node("n0", BROKEN)) + render(fleet)


def labels_of(text: str) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for name, labels in _SERIES.findall(text):
        known.setdefault(name, set()).update(re.findall(r"(\w+)(?:=~|=)", labels))
    return known


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_what_is_printed(query: str, printed: str) -> None:
    known = labels_of("\n".join(row for row in printed.splitlines() if row[0] != "#"))
    for name, labels in labels_of(query).items():
        assert name in known
        assert labels - {"instance"} <= known[name]


def test_a_fleets_samples_lie_beside_those_of_a_node(printed: str) -> None:
    rows = [row.rpartition(" ")[0] for row in printed.splitlines() if row[0] != "#"]
    assert len(rows) == len(set(rows))


def promtool(*words: str | Path, text: str = "") -> str:
    done = run_program(["promtool", *map(str, words)], input=text)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_prometheus_accepts_every_query_and_sample(tmp_path: Path) -> None:
    promtool("check", "rules", MONITORING / "alerts.yml")
    rows = [
        {"record": f"query:{number}", "expr": query.replace("$instance", ".*")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rows}]}), "utf-8")
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)
    promtool("check", "metrics", text=render(node("n0", BROKEN)))


@needs_promtool
def test_a_broken_node_and_a_missing_one_raise_their_alerts(printed: str, tmp_path: Path) -> None:
    series = []
    for row in printed.splitlines():
        if row[0] != "#":
            name, _, value = row.rpartition(" ")
            name = name if "}" in name else f"{name}{{}}"
            comma = "," if "=" in name else ""
            series.append({"series": f'{name[:-1]}{comma}instance="n0"}}', "values": f"{value}x40"})
    raised = [
        ("AscendNodeErrors", [{"level": "error"}]),
        ("AscendCheckFails", [{"check": "a-check"}]),
        ("AscendFleetNodeFailed", [{"node": "n0"}]),
        ("AscendFleetNodeMissing", [{"node": "gone"}]),
        ("AscendCouldNotTell", []),
    ]
    severities = {rule["alert"]: rule["labels"] for rule in RULES}
    alerts = [
        {
            "eval_time": "30m",
            "alertname": name,
            "exp_alerts": [
                {"exp_labels": {**labels, **severities[name], "instance": "n0"}} for labels in every
            ],
        }
        for name, every in raised
    ]
    rules = tmp_path / "alerts.yml"
    bare = [msgspec.to_builtins({**rule, "annotations": {}}) for rule in RULES]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "bare", "rules": bare}]}), "utf-8")
    case = {"interval": "1m", "input_series": series, "alert_rule_test": alerts}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [rules.name], "tests": [case]}), "utf-8")
    promtool("test", "rules", file)


def test_the_node_condition_is_one_of_kubernetes() -> None:
    text = (DOCS / "kubernetes" / "node-condition.yaml").read_text("utf-8")
    daemons = yaml.safe_load(text)
    kubernetes_validate.validate(daemons, "1.30", strict=True)
    spec = daemons["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in spec["volumes"]
    }
    plugin = json.loads((DOCS / "kubernetes" / "ascend-problem.json").read_text("utf-8"))
    assert {rule["condition"] for rule in plugin["rules"]} == {
        condition["type"] for condition in plugin["conditions"]
    }


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in MONITORING.glob("ascend-doctor.*"):
        text = unit.read_text("utf-8").replace("/opt/doctor/bin/ascend-doctor", "/bin/true")
        (tmp_path / unit.name).write_text(text, "utf-8")
    units = sorted(map(str, tmp_path.glob("ascend-doctor.*")))
    done = run_program(["systemd-analyze", "verify", "--man=no", *units])
    assert "ascend-doctor" not in done.stderr


def test_the_image_is_made_of_files_that_there_are() -> None:
    words = re.findall(r"^COPY (.*) \S+$", CONTAINERFILE.read_text("utf-8"), re.MULTILINE)
    assert len(words) > 3
    assert not [path for path in " ".join(words).split() if not (DOCS.parent / path).exists()]


@needs_hadolint
def test_the_containerfile_is_without_a_complaint() -> None:
    run_program(["hadolint", str(CONTAINERFILE)])
