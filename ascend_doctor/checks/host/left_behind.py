"""Variables of a launcher, the loader or Python that another program left behind."""

import re

from ascend_doctor.checks.launch.rules import evaluate
from ascend_doctor.checks.launch.settings import SettingNames
from ascend_doctor.facts import Environment
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts
from ascend_doctor.judging.env_values import settings, show_values, unset
from ascend_doctor.matrix.schema import urls
from ascend_doctor.patterns import defer

TEXTS = Texts("left-behind")

_VARIABLE = defer(r"\b[A-Z][A-Z_]+\b")
_OF_HOST = defer(r"\b(?:cpus|devices)\b")
LOADER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"


@TEXTS.check("launcher-variables")
def _launcher_variables(case: Case) -> Findings:
    names = SettingNames(case)
    for row in case.catalog.variables.relations:
        named = tuple(dict.fromkeys(_VARIABLE.findall(row.holds)))
        numbers = all(re.fullmatch("[0-9]{1,9}", names.variables.get(name, "")) for name in named)
        if (numbers or row.words) and evaluate(row.holds, names) is False:
            yield TEXTS.finding(
                "unrelated",
                commands=unset(*named).commands,
                refs=urls(row.sources),
                named=", ".join((*named, *_OF_HOST.findall(row.holds))),
                shown=show_values(names.variables, *named),
                holds=row.words or row.holds,
            )


@TEXTS.check("ld-preload")
def _ld_preload(case: Case) -> Findings:
    settings(case)
    lost = [library.name for library in case.need(Environment).preloaded if library.path is None]
    if lost:
        yield TEXTS.finding(
            "loader-skips",
            lost=", ".join(lost),
            verb="is" if len(lost) == 1 else "are",
            commands=unset("LD_PRELOAD").commands,
            refs=(LOADER,),
        )


@TEXTS.check("python-home")
def _python_home(case: Case) -> Findings:
    home = settings(case).get("PYTHONHOME")
    if home is None:
        raise NotApplicable("PYTHONHOME is not set")
    python = case.facts.python
    own = {python.prefix, python.base_prefix} if python else set()
    if home.rstrip("/") in own - {""}:
        return
    base = python and (python.base_prefix or python.prefix)
    shown = f"PYTHONHOME={home!r}" + (f"; the interpreter is of {base}" if python else "")
    remedy = unset("PYTHONHOME")
    yield TEXTS.finding("python-home-set", remedy=remedy, home=home, observed=shown)
