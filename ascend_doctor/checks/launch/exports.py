"""Variables that a script sets for a launch: PYTHONPATH, and those that it does not export."""

from ascend_doctor.facts import Launch
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts
from ascend_doctor.patterns import patterns_of

TEXTS = Texts("exports")

_APPENDED, _EXPANSION, _MEGATRON = patterns_of(__file__)


@TEXTS.check("variables-exported")
def _variables_exported(case: Case) -> Findings:
    launch = case.need(Launch)
    for name in launch.unexported:
        yield TEXTS.finding("not-exported", launch.places.get(name), name=name)


@TEXTS.check("pythonpath-prepended")
def _pythonpath_prepended(case: Case) -> Findings:
    launch = case.need(Launch)
    if not launch.pythonpath:
        raise NotApplicable("the launch does not set PYTHONPATH")
    if "" in _EXPANSION.sub("$", launch.pythonpath).split(":"):
        yield TEXTS.finding("empty-entry", launch.places.get("PYTHONPATH"), launch=launch)
    match = _APPENDED.match(launch.pythonpath)
    if match and _MEGATRON.search(match.group(1)):
        yield TEXTS.finding("appended", launch.places.get("PYTHONPATH"))
