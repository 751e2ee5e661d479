"""Manifests of jobs against the custom resource definitions of Volcano and MindCluster."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.acceptance.clones import show
from tests.fleet.test_manifests import MORE, Manifest, manifest
from tests.later import jsonschema

MIND_CLUSTER = "Ascend/mind-cluster"
UPSTREAM = {
    "volcano": (
        "--volcano",
        "volcano-sh/volcano",
        "config/crd/volcano/bases/batch.volcano.sh_jobs.yaml",
    ),
    # As MindCluster builds it.
    **{
        f"volcano {version}": (
            *("--volcano", MIND_CLUSTER),
            f"component/ascend-for-volcano/build/volcano-v{version}.yaml",
        )
        for version in ("1.9.0", "1.12.0", "1.15.0")
    },
    "ascendjob": (
        "--ascendjob",
        MIND_CLUSTER,
        "component/ascend-operator/build/ascend-operator.yaml",
    ),
}
SERVED = {"--volcano": ("Job", "v1alpha1"), "--ascendjob": ("AscendJob", "v1")}


def strict(schema: Any) -> Any:
    """A schema of a custom resource as ``kubectl apply --validate=strict`` takes it.

    Kubernetes prunes what a schema does not name, so nothing else may be there.
    """
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: {name: strict(one) for name, one in value.items()}
        if key == "properties"
        else strict(value)
        for key, value in schema.items()
    }
    if (
        found.get("type") == "object"
        and "properties" in found
        and "additionalProperties" not in found
        and not found.get("x-kubernetes-preserve-unknown-fields")
    ):
        found["additionalProperties"] = False
    return found


def crd(text: str, kind: str, version: str) -> Manifest:
    for one in yaml.safe_load_all(text):
        if (
            one
            and one["kind"] == "CustomResourceDefinition"
            and one["spec"]["names"]["kind"] == kind
        ):
            (served,) = [row for row in one["spec"]["versions"] if row["name"] == version]
            found: Manifest = strict(served["schema"]["openAPIV3Schema"])
            return found
    raise AssertionError(f"no definition of {kind}")


@pytest.mark.parametrize("name", UPSTREAM)
@pytest.mark.parametrize("more", [("--nodes", "3"), ("--nodes", "2", "--gang", *MORE)])
def test_a_job_fits_the_schema_of_its_kind(
    capsys: pytest.CaptureFixture[str], name: str, more: tuple[str, ...]
) -> None:
    kind, repository, path = UPSTREAM[name]
    schema = crd(show(repository, path), *SERVED[kind])
    found = manifest(capsys, kind, *more)
    jsonschema.validate(found, schema)
    wrongs: tuple[Manifest, ...] = ({"task": []}, {"schedulerName": 1})
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**found, "spec": {**found["spec"], **wrong}}, schema)
