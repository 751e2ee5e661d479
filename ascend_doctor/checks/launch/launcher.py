"""A launcher's own options: names, values and places as its parser takes them."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.option_names import STOPS, describe_kind
from ascend_doctor.checks.launch.options import at, options
from ascend_doctor.checks.launch.rules import judge_rules
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Case, Finding, NotApplicable, Texts
from ascend_doctor.judging.spelling import slip_of

TEXTS = Texts("launcher")

_RANKS = "nproc-per-node"
# Its parser takes no beginnings of names, and its releases differ.
_STRICT = "accelerate"


@TEXTS.check("run-launcher-options")
def _run_launcher_options(case: Case) -> Iterator[Finding]:
    options(case)
    launch = case.need(Launch)
    if not launch.launcher:
        raise NotApplicable("the launch command starts no launcher that is known here")
    if launch.absent:
        where = launch.places.get(launch.absent)
        yield TEXTS.finding("no-script", where, launch=launch, observed=launch.absent)
    kinds = case.catalog.launchers[launch.launcher]
    for name, value in launch.launcher_options.items():
        yield from _find_refusal(case, launch, name, value)
    yield from judge_rules(case, "run-launcher-options")
    if launch.launcher != "torchrun":
        return
    behind = [name for name in launch.flags if name not in launch.launcher_options]
    ranks = next((name for name in behind if name.replace("_", "-") == _RANKS), "")
    before = {name.replace("_", "-") for name in launch.launcher_options}
    if ranks and _RANKS not in before and not launch.partial:
        late = ", ".join(f"--{name}" for name in behind if name.replace("_", "-") in kinds)
        yield TEXTS.finding("options-behind", at(case, f"--{ranks}"), late=late, ranks=ranks)


def _find_refusal(case: Case, launch: Launch, name: str, value: str) -> Iterator[Finding]:
    launchers, where = case.catalog.launchers, launch.places.get(f"--{name}")
    kinds, plain = launchers[launch.launcher], name.replace("_", "-")
    # argparse accepts a prefix of a name, but not in accelerate.
    begun = [each for each in kinds if each.startswith(plain) and launch.launcher != _STRICT]
    full = [plain] if plain in kinds else begun
    if len(full) != 1:
        own = [known.replace("-", "_") for known in kinds] if "_" in name else list(kinds)
        close = slip_of(name, own)
        if launch.launcher == _STRICT and not close and plain not in launchers["torchrun"]:
            return  # of another release
        right = f"--{close}" if close else f"an option of {launch.launcher}"
        fix = f"Write --{close}" if close else f"Remove --{name}"
        yield TEXTS.finding(
            "no-option", where, launch=launch, name=name, right=right, STOPS=STOPS, fix=fix
        )
        return
    # Another shell expands it.
    known = UNTOLD not in value and value[:1] != "$"
    kind = kinds[full[0]]
    # A script's name without an ending, behind a switch.
    script = kind == "flag" and launch.launcher != "torchrun"
    if expected := describe_kind(kind, value) if known and not script else "":
        where, word = launch.places.get(f"--{name}=", where), f" {value}" if value else ""
        title = f"--{name} does not take {value!r}" if value else f"--{name} has no value"
        yield TEXTS.finding(
            "no-such-value",
            where,
            launch=launch,
            title=title,
            name=name,
            word=word,
            expected=expected,
        )
