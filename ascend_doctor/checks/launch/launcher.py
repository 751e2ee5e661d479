"""Torchrun's own options: names, values and places as its parser takes them."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.option_names import STOPS, describe_kind
from ascend_doctor.checks.launch.options import at, number, options
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Case, Finding, NotApplicable, Texts, Unknown
from ascend_doctor.judging.spelling import slip_of

TEXTS = Texts("launcher")

_RANKS = "nproc-per-node"


@TEXTS.check("run-launcher-options")
def _run_launcher_options(case: Case) -> Iterator[Finding]:
    options(case)
    launch = case.need(Launch)
    if not launch.launcher:
        raise NotApplicable("the launch command does not start torchrun")
    if launch.absent:
        where = launch.places.get(launch.absent)
        yield TEXTS.finding("no-script", where, launch=launch, observed=launch.absent)
    kinds = case.catalog.flags.launcher
    for name, value in launch.launcher_options.items():
        yield from _find_refusal(case, launch, name, value)
    behind = [name for name in launch.flags if name not in launch.launcher_options]
    ranks = next((name for name in behind if name.replace("_", "-") == _RANKS), "")
    before = {name.replace("_", "-") for name in launch.launcher_options}
    if ranks and _RANKS not in before and not launch.partial:
        late = [f"--{name}" for name in behind if name.replace("_", "-") in kinds]
        yield TEXTS.finding(
            "options-behind", at(case, f"--{ranks}"), late=", ".join(late), ranks=ranks
        )
    yield from _alone(case, launch)


def _alone(case: Case, launch: Launch) -> Iterator[Finding]:
    try:
        nodes = number(case, "nnodes", 1)
    except Unknown:
        return
    if "standalone" in launch.launcher_options and nodes > 1:
        yield TEXTS.finding("standalone", at(case, "--standalone", "nnodes"), nodes=nodes)


def _find_refusal(case: Case, launch: Launch, name: str, value: str) -> Iterator[Finding]:
    kinds, where = case.catalog.flags.launcher, launch.places.get(f"--{name}")
    plain = name.replace("_", "-")
    # argparse accepts a prefix of a name.
    full = [plain] if plain in kinds else [each for each in kinds if each.startswith(plain)]
    if len(full) != 1:
        own = [known.replace("-", "_") for known in kinds] if "_" in name else list(kinds)
        close = slip_of(name, own)
        right = f"--{close}" if close else "an option of torchrun"
        fix = f"Write --{close}" if close else f"Remove --{name}"
        yield TEXTS.finding("no-option", where, name=name, right=right, STOPS=STOPS, fix=fix)
        return
    # Another shell expands it.
    known = UNTOLD not in value and value[:1] != "$"
    expected = describe_kind(kinds[full[0]], value) if known else ""
    if expected:
        where = launch.places.get(f"--{name}=", where)
        title = f"--{name} does not take {value!r}" if value else f"--{name} has no value"
        word = f" {value}" if value else ""
        yield TEXTS.finding(
            "no-such-value", where, title=title, name=name, word=word, expected=expected
        )
