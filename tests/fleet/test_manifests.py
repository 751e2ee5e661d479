"""Manifests against the schemas of Kubernetes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.cli import run
from ascend_doctor.fleet.manifest import (
    ManifestOptions,
    Toleration,
    ascend_job,
    chip_resources,
    volcano,
)
from tests.later import kubernetes_validate

Manifest = dict[str, Any]
KINDS = ("--volcano", "--ascendjob", "--initcontainer")
MORE = (
    *("--toleration", "npu=yes:NoSchedule", "--toleration", "maintenance"),
    *("--node-selector", "accelerator-type=module-910b-8", "--annotation", "sp-block=16"),
    *("--namespace", "train", "--family", "ascend910_93"),
)


def manifest(capsys: pytest.CaptureFixture[str], kind: str, *more: str) -> Manifest:
    capsys.readouterr()
    assert run(["fleet", "manifest", kind, "--image", "registry/train:1", *more]) == 0
    document: Manifest = yaml.safe_load(capsys.readouterr().out)
    return document


def pods(manifest: Manifest) -> list[Manifest]:
    """Every pod that comes of it, as a pod of its own."""
    if manifest["kind"] == "Pod":
        return [manifest]
    if manifest["apiVersion"].startswith("batch.volcano.sh/"):
        templates = [task["template"] for task in manifest["spec"]["tasks"]]
    else:
        templates = [replica["template"] for replica in manifest["spec"]["replicaSpecs"].values()]
    head = {"apiVersion": "v1", "kind": "Pod"}
    return [
        {**head, **template, "metadata": {"name": "a", **template["metadata"]}}
        for template in templates
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("more", [(), MORE])
def test_pods_are_those_of_kubernetes(
    capsys: pytest.CaptureFixture[str], kind: str, more: tuple[str, ...]
) -> None:
    for pod in pods(manifest(capsys, kind, *more)):
        for version in ("1.25", "1.30", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(pod, version, strict=True)
        broken = json.loads(json.dumps(pod).replace('"hostNetwork"', '"hostNetworks"'))
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, "1.30", strict=True)


def container(manifest: Manifest) -> Manifest:
    (container,) = pods(manifest)[0]["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize("family", chip_resources())
def test_the_family_decides(capsys: pytest.CaptureFixture[str], family: str) -> None:
    job = manifest(capsys, "--volcano", "--family", family)
    chips = chip_resources()[family]
    assert job["metadata"]["labels"] == {"ring-controller.atlas": chips.label}
    spec = container(job)
    assert (
        spec["resources"]["limits"] == spec["resources"]["requests"] == {chips.resource: chips.npus}
    )
    mounts = {mount["mountPath"] for mount in spec["volumeMounts"]}
    assert ("/usr/local/Ascend/driver/topo" in mounts) == (family == "ascend950")


def test_nodes_wait_for_each_other_only_where_they_meet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone = manifest(capsys, "--volcano", "--nodes", "4")["spec"]
    assert (alone["minAvailable"], "plugins" in alone) == (1, False)
    gang = manifest(capsys, "--volcano", "--nodes", "4", "--gang")["spec"]
    assert (gang["minAvailable"], gang["plugins"]) == (4, {"env": [], "svc": []})
    job = manifest(capsys, "--ascendjob", "--nodes", "4", "--gang")["spec"]
    assert {kind: replica["replicas"] for kind, replica in job["replicaSpecs"].items()} == {
        "Master": 1,
        "Worker": 3,
    }
    assert "--gang" in container(manifest(capsys, "--ascendjob", "--gang"))["command"]


def test_reports_go_to_the_log_or_to_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert container(manifest(capsys, "--volcano"))["command"][-2:] == ["--format", "json"]
    job = manifest(capsys, "--volcano", "--claim", "shared")
    assert container(job)["command"][-2:] == ["-o", "/reports/$(NODE_NAME).json"]
    claims = [volume for volume in pods(job)[0]["spec"]["volumes"] if volume["name"] == "reports"]
    assert claims == [{"name": "reports", "persistentVolumeClaim": {"claimName": "shared"}}]


def test_what_training_sources_is_sourced(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [tmp_path / "set env's.sh", tmp_path / "more.sh"]
    for number, file in enumerate(files):
        file.write_text(f"export SOURCED{number}=yes\n")
    options = [word for file in files for word in ("--source", str(file))]
    job = manifest(capsys, "--volcano", "--doctor", "sh -c 'env; echo $0 $@'", *options)
    command = [word.replace("$$", "$") for word in container(job)["command"]]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert "SOURCED0=yes" in output
    assert "SOURCED1=yes" in output
    assert output.splitlines()[-1].startswith("check --level 3 ")


def test_the_gate_stands_before_the_work_and_has_its_npus(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = manifest(capsys, "--initcontainer", "--npus", "2")["spec"]
    (gate,), (work,) = spec["initContainers"], spec["containers"]
    assert gate["command"][:4] == ["ascend-doctor", "check", "--preset", "init"]
    assert gate["command"][4:6] == ["--expect", "npus>=2"]
    assert gate["resources"] == work["resources"]
    assert gate["volumeMounts"] == work["volumeMounts"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "--volcano, --ascendjob or --initcontainer"),
        (("--volcano", "--name", "Train_1"), "is no name"),
        (("--volcano", "--toleration", "a b"), "KEY[=VALUE][:EFFECT]"),
        (("--volcano", "--annotation", "x"), "KEY=VALUE"),
        (("--volcano", "--doctor", "'"), "--doctor"),
        (("--initcontainer", "--nodes", "2"), "is a gate"),
        (("--initcontainer", "-l", "3"), "is a gate"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert run(["fleet", "manifest", "--image", "i", *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert text in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.slow
@given(st.text(min_size=1, max_size=12), st.sampled_from([volcano, ascend_job]))
def test_any_word_reaches_the_doctor_as_it_is(
    word: str, shape: Callable[[ManifestOptions], Manifest]
) -> None:
    chips = chip_resources()["ascend910b"]
    document = shape(
        ManifestOptions(
            name="a",
            image=word,
            command=("ascend-doctor", word),
            nodes=1,
            npus=8,
            family="ascend910b",
            resource=chips.resource,
            label=chips.label,
            tolerations=(Toleration(key="k", value=word),),
        )
    )
    spec = container(yaml.safe_load(yaml.safe_dump(document)))
    assert spec["image"] == word
    # What Kubernetes makes of a command: $$ is $, and $(NAME) is a variable.
    assert spec["command"][1].replace("$$", "$") == word
    assert "$(" not in spec["command"][1].replace("$$", "")
