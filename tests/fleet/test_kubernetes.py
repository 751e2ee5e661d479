"""The examples of docs/kubernetes: lint, the chip's facts, the schema of a pod."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_doctor.cli import run
from ascend_doctor.judging.container_fix import host_paths
from ascend_doctor.matrix.catalog import Catalog
from tests.later import kubernetes_validate
from tests.present import present

Example = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "docs" / "kubernetes"
NAMES = ("volcano", "ascendjob", "init-container")


def read_example(name: str) -> Example:
    example: Example = yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))
    return example


def pods(example: Example) -> list[Example]:
    if example["kind"] == "Pod":
        return [example]
    spec = example["spec"]
    parts = spec["tasks"] if "tasks" in spec else spec["replicaSpecs"].values()
    head = {"apiVersion": "v1", "kind": "Pod"}
    return [
        {**head, **part["template"], "metadata": {"name": "a", **part["template"]["metadata"]}}
        for part in parts
    ]


@pytest.mark.parametrize("name", NAMES)
def test_lint_finds_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = FOLDER / f"{name}.yaml"
    assert run(["lint", "--fail-on", "warning", "--format", "json", str(file)]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    judged = {row["check"] for row in findings if row["level"] == "ok"}
    assert "pod-devices" in judged


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_have_what_a_910b_needs(name: str) -> None:
    family = present(Catalog().family("ascend910b"))
    assert family.pod is not None
    labels = read_example(name)["metadata"].get("labels", {})
    assert labels.get("ring-controller.atlas", family.pod.label) == family.pod.label
    for pod in pods(read_example(name)):
        amount = {family.pod.resource: family.pod.npus}
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
            assert container["resources"] == {"requests": amount, "limits": amount}
            mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert mounts == {*host_paths(family), "/dev/shm"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_pods_are_those_of_kubernetes(name: str) -> None:
    for pod in pods(read_example(name)):
        for version in ("1.25", "1.30", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(pod, version, strict=True)
        broken = json.loads(json.dumps(pod).replace('"hostNetwork"', '"hostNetworks"'))
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, "1.30", strict=True)
