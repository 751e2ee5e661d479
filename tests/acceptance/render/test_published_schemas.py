"""Reports against the schemas that the makers of their formats publish."""

import json

import pytest

from ascend_doctor.render.formats import junit, sarif
from ascend_doctor.report import Report
from tests.acceptance.clones import show
from tests.fleet.nodes import node
from tests.later import jsonschema, xmlschema
from tests.render.test_contract import EVERY

SARIF = "sarif-2.1/schema/sarif-schema-2.1.0.json"
XUNIT = "src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd"


@pytest.fixture
def report() -> Report:
    return node("host", *EVERY)


def test_junit_is_what_jenkins_takes(report: Report) -> None:
    schema = xmlschema.XMLSchema(show("jenkinsci/xunit-plugin", XUNIT))
    text = junit.render(report)
    schema.validate(text)
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        schema.validate(text.replace("<testcase ", "<case ").replace("</testcase", "</case"))


def test_sarif_is_what_oasis_publishes(report: Report) -> None:
    schema = json.loads(show("oasis-tcs/sarif-spec", SARIF))
    made = json.loads(sarif.render(report))
    jsonschema.validate(made, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**made, "more": 1}, schema)
