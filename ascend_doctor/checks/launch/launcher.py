"""Torchrun's own options: names, values and places as its parser takes them."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.option_names import STOPS, describe_kind
from ascend_doctor.checks.launch.options import at, number, options
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error
from ascend_doctor.judging.spelling import slip_of

_RUN = "pytorch/pytorch@v2.13.0:torch/distributed/run.py"
_RANKS = "nproc-per-node"


@check("run-launcher-options", "The launcher accepts its options", scope="launch")
def run_launcher_options(case: Case) -> Iterator[Finding]:
    """Torchrun reads options up to the script; the script gets all others.

    Its parser stops at an unknown name, at a word for a number, and at a value that is not a
    choice. A script that does not exist ends each rank. `torchrun train.py --nproc_per_node 8`
    starts one rank. `--standalone` sets a rendezvous on localhost, where a second node never joins.
    """
    options(case)
    launch = case.need(Launch)
    if not launch.launcher:
        raise NotApplicable("the launch command does not start torchrun")
    if launch.absent:
        yield error(
            f"{launch.absent} does not exist",
            observed=launch.absent,
            required="the path of a script",
            because="Python ends in each rank: can't open file.",
            remedy=Remedy(summary="Correct the path, or start it in the script's folder"),
        )
    kinds = case.catalog.flags.launcher
    for name, value in launch.launcher_options.items():
        yield from _find_refusal(case, launch, name, value)
    behind = [name for name in launch.flags if name not in launch.launcher_options]
    ranks = next((name for name in behind if name.replace("_", "-") == _RANKS), "")
    before = {name.replace("_", "-") for name in launch.launcher_options}
    if ranks and _RANKS not in before and not launch.partial:
        late = [f"--{name}" for name in behind if name.replace("_", "-") in kinds]
        yield error(
            "torchrun starts one rank: its options follow the script",
            observed=", ".join(late),
            required=f"--{ranks} before the script",
            because="torchrun passes what follows the script to the script.",
            remedy=Remedy(summary=f"Move {', '.join(late)} before the script"),
            refs=(_RUN,),
            location=at(case, f"--{ranks}"),
        )
    yield from _alone(case, launch)


def _alone(case: Case, launch: Launch) -> Iterator[Finding]:
    try:
        nodes = number(case, "nnodes", 1)
    except Unknown:
        return
    if "standalone" in launch.launcher_options and nodes > 1:
        yield error(
            f"--standalone starts one node, not {nodes}",
            observed=f"--standalone, --nnodes {nodes}",
            required="--nnodes 1, or no --standalone",
            because="--standalone sets the rendezvous to localhost, and the run waits for nodes.",
            remedy=Remedy(summary="Replace --standalone by --master_addr and --node_rank"),
            refs=(_RUN,),
            location=at(case, "--standalone", "nnodes"),
        )


def _find_refusal(case: Case, launch: Launch, name: str, value: str) -> Iterator[Finding]:
    kinds, where = case.catalog.flags.launcher, launch.places.get(f"--{name}")
    plain = name.replace("_", "-")
    # argparse accepts a prefix of a name.
    full = [plain] if plain in kinds else [each for each in kinds if each.startswith(plain)]
    if len(full) != 1:
        own = [known.replace("-", "_") for known in kinds] if "_" in name else list(kinds)
        close = slip_of(name, own)
        yield error(
            f"torchrun has no option --{name}",
            observed=f"--{name}",
            required=f"--{close}" if close else "an option of torchrun",
            because=STOPS,
            remedy=Remedy(summary=f"Write --{close}" if close else f"Remove --{name}"),
            refs=(_RUN,),
            location=where,
        )
        return
    expected = "" if UNTOLD in value else describe_kind(kinds[full[0]], value)
    if expected:
        yield error(
            f"--{name} does not take {value!r}" if value else f"--{name} has no value",
            observed=f"--{name} {value}".rstrip(),
            required=f"--{name} with {expected}",
            because="torchrun stops at it.",
            remedy=Remedy(summary=f"Give --{name} {expected}"),
            refs=(_RUN,),
            location=launch.places.get(f"--{name}=", where),
        )
