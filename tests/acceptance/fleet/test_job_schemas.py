"""docs/kubernetes against the custom resource definitions of Volcano and MindCluster."""

from typing import Any

import pytest
import yaml

from tests.acceptance.clones import show
from tests.fleet.test_kubernetes import Example, read_example
from tests.later import jsonschema

MIND_CLUSTER = "Ascend/mind-cluster"
UPSTREAM = {
    # As MindCluster builds it.
    **{
        f"volcano {version}": (
            *("volcano", MIND_CLUSTER),
            f"component/ascend-for-volcano/build/volcano-v{version}.yaml",
        )
        for version in ("1.9.0", "1.12.0", "1.15.0")
    },
    "ascendjob": (
        "ascendjob",
        MIND_CLUSTER,
        "component/ascend-operator/build/ascend-operator.yaml",
    ),
}
SERVED = {"volcano": ("Job", "v1alpha1"), "ascendjob": ("AscendJob", "v1")}


def strict(schema: Any) -> Any:
    """A custom resource's schema as ``kubectl apply --validate=strict`` takes it.

    Kubernetes prunes fields that a schema does not name: none may be present.
    """
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    node = {
        key: {name: strict(field) for name, field in value.items()}
        if key == "properties"
        else strict(value)
        for key, value in schema.items()
    }
    if (
        node.get("type") == "object"
        and "properties" in node
        and "additionalProperties" not in node
        and not node.get("x-kubernetes-preserve-unknown-fields")
    ):
        node["additionalProperties"] = False
    return node


def crd(text: str, kind: str, version: str) -> Example:
    for document in yaml.safe_load_all(text):
        if (
            document
            and document["kind"] == "CustomResourceDefinition"
            and document["spec"]["names"]["kind"] == kind
        ):
            (served,) = [row for row in document["spec"]["versions"] if row["name"] == version]
            crd: Example = strict(served["schema"]["openAPIV3Schema"])
            return crd
    raise AssertionError(f"no definition of {kind}")


@pytest.mark.parametrize("name", UPSTREAM)
def test_a_job_fits_the_schema_of_its_kind(name: str) -> None:
    kind, repository, path = UPSTREAM[name]
    schema = crd(show(repository, path), *SERVED[kind])
    job = read_example(kind)
    jsonschema.validate(job, schema)
    wrongs: tuple[Example, ...] = ({"task": []}, {"schedulerName": 1})
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**job, "spec": {**job["spec"], **wrong}}, schema)
