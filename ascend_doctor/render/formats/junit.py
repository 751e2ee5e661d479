"""The report as JUnit XML: a test case a check, for CI systems."""

from itertools import groupby
from xml.etree import ElementTree as ET

from ascend_doctor.findings import Level
from ascend_doctor.render.fields import details
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report

# "Could not tell" is JUnit's error: the test reached no verdict.
_ELEMENTS = {Level.ERROR: "failure", Level.UNKNOWN: "error", Level.SKIPPED: "skipped"}


def render(report: Report) -> str:
    """One test suite. Warnings pass and are in the case's output."""
    cases = [
        (name, list(findings)) for name, findings in groupby(report.findings, lambda f: f.check)
    ]
    worst = [max(findings, key=lambda f: f.level).level for _, findings in cases]
    suite = ET.Element(
        "testsuite",
        name="ascend-doctor (simulated)" if report.simulated else "ascend-doctor",
        tests=str(len(cases)),
        failures=str(worst.count(Level.ERROR)),
        errors=str(worst.count(Level.UNKNOWN)),
        skipped=str(worst.count(Level.SKIPPED)),
        time=f"{report.seconds:.3f}",
        timestamp=report.taken_at[:19],
        hostname=one_line(report.host),
    )
    if report.notices:
        properties = ET.SubElement(suite, "properties")
        for number, notice in enumerate(report.notices):
            ET.SubElement(properties, "property", name=f"notice {number}", value=one_line(notice))
    for name, findings in cases:
        case = ET.SubElement(suite, "testcase", classname="ascend-doctor", name=name, time="0")
        top = max(findings, key=lambda f: f.level)
        if top.level in _ELEMENTS:
            element = ET.SubElement(case, _ELEMENTS[top.level], message=one_line(top.title))
            if top.level is not Level.SKIPPED:
                element.set("type", top.level.value)
                element.text = "\n\n".join(details(finding) for finding in findings)
        elif top.level is Level.WARNING:
            ET.SubElement(case, "system-out").text = "\n\n".join(
                details(finding) for finding in findings
            )
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
