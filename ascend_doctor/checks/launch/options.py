"""A launch command against the machine and the stack: what the run itself would refuse."""

import contextlib
from collections.abc import Mapping

from ascend_doctor.errors import NotApplicable, Unknown, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Case, Findings, Place, Remedy, Texts
from ascend_doctor.judging.layout_rules import MOST_EXPERTS, holds_experts
from ascend_doctor.judging.packages import family
from ascend_doctor.judging.source_trees import core_version
from ascend_doctor.matrix.models import find_near
from ascend_doctor.matrix.schema import urls

TEXTS = Texts("launches")

_SHOWN_SPOTS = 6
# Device counts of a node that a launch may take; any other number is itself suspect.
NODE_SIZES = frozenset({1, 2, 4, 8, 16})
# What MindSpeed-MM's launches take from the file of --mm-model, not from the command
# (Ascend/MindSpeed-MM@57069cd5:examples/qwen2.5vl/model_7b.json).
_OF_MODEL_FILE = {
    *("num_layers", "num_attention_heads", "num_query_groups", "group_query_attention"),
    *("hidden_size", "ffn_hidden_size", "kv_channels", "multi_latent_attention"),
    *("num_experts", "moe_router_topk", "moe_ffn_hidden_size"),
}
# Start Megatron, or train by its arguments, which Megatron validates.
MEGATRON = frozenset({"megatron", "megatron-swift", "verl", "mindspeed-rl"})
# Megatron-LM up to 0.12 gives an encoder ranks beside the decoder's.
ENCODER = ("encoder_tensor_model_parallel_size", "encoder_pipeline_model_parallel_size")
_OF_LAUNCHER = ("nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port")
# Ranks of all nodes: msrun's and MindSpeed-RL's, accelerate's.
_OF_ALL_NODES = ("worker_num", "actor_resource.num_npus", "num_processes")
# YAML files and Hydra give a switch a value; a bare --switch has an empty one.
_OFF = {"false", "0", "none", "no", "null"}


def options(case: Case) -> dict[str, str]:
    """Raises NotApplicable without a launch."""
    launch = case.need(Launch)
    if not launch.present:
        raise NotApplicable("no launch command was given; append it after --")
    return launch.options


def megatron_options(case: Case) -> dict[str, str]:
    """Raises NotApplicable if Megatron does not read the command."""
    launch_options = options(case)
    if case.need(Launch).program not in MEGATRON | {""}:
        raise NotApplicable("the launch command does not start Megatron")
    if any(name in launch_options for name in ENCODER):
        raise NotApplicable("the encoder has parallel sizes of its own")
    return launch_options


def part_sizes(case: Case) -> dict[str, int]:
    names = {"TP": "tensor", "PP": "pipeline", "EP": "expert"}
    sizes = {short: number(case, f"{name}_model_parallel_size", 1) for short, name in names.items()}
    return {**sizes, "CP": number(case, "context_parallel_size", 1)}


def at(case: Case, *names: str) -> Place | None:
    """The place of the first of these options or variables in the file."""
    places = case.need(Launch).places
    return next((places[name] for name in names if name in places), None)


def is_given(case: Case, name: str) -> bool:
    """Whether an option is given. Raises Unresolved if some options are unknown."""
    launch = case.need(Launch)
    in_file = name in _OF_MODEL_FILE and "mm_model" in launch.options
    if name in launch.options:
        return True
    if (launch.partial and not (launch.launcher_seen and name in _OF_LAUNCHER)) or in_file:
        raise Unresolved(f"whether {name} is given; the command takes options from elsewhere")
    return False


def flag(case: Case, name: str) -> bool:
    """Raises Unresolved if the switch's value is unknown."""
    if not is_given(case, name):
        return False
    value = case.need(Launch).options[name].lower()
    if UNTOLD in value:
        raise Unresolved(f"{name} is known when the launch runs")
    return value not in _OFF


def number(case: Case, name: str, unset: int | None = None, *, least: int = 1) -> int:
    """A size, or ``unset`` if not given. Raises Unknown for anything but a number."""
    launch_options = case.need(Launch).options
    if not is_given(case, name):
        if unset is None:
            raise NotApplicable(f"the launch command does not give {name}")
        return unset
    text = launch_options[name]
    if text.lower() in {"null", "none"} and unset is not None:
        return unset
    if not text.isdecimal() or not int(text[:12]) >= least:
        if UNTOLD in text:
            raise Unresolved(f"{name} is known when the launch runs")
        raise Unknown(f"{name} is {text!r}, which is no size")
    # Python takes quadratic time for long digits; no size has more.
    return int(text[:12])


def trains_roles(launch: Launch) -> bool:
    """Whether a MindSpeed-RL configuration has an actor: all but those of DPO."""
    return any(key.startswith("actor_config.") for key in launch.values)


def world(case: Case) -> int:
    """The number of ranks. Raises Unknown or NotApplicable if the command does not say."""
    launch = case.need(Launch)
    if launch.program == "verl":
        return number(case, "trainer.n_gpus_per_node") * nodes(case)
    if "nproc_per_node" in launch.options:
        return number(case, "nproc_per_node") * nodes(case)
    for name in _OF_ALL_NODES:
        if name in launch.options:
            return number(case, name)
    if "num_gpus" in launch.options:  # deepspeed's
        return number(case, "num_gpus") * nodes(case)
    has = launch.allocation
    if has and has.whole and has.nodes and launch.program == "megatron" and not launch.launcher:
        return has.nodes * has.tasks  # of srun
    ranks = variables(case).get("NPROC_PER_NODE", "")
    if launch.partial or "NPROC_PER_NODE" in unseen(case):
        raise Unresolved("how many ranks there are")
    if not launch.program.endswith("swift") or not ranks:
        raise NotApplicable("the launch command does not give the number of ranks")
    if not ranks.isdecimal() or not int(ranks[:6]):
        raise Unknown("NPROC_PER_NODE is no number here")
    return int(ranks[:6]) * nodes(case)


def variables(case: Case) -> Mapping[str, str]:
    """The launch's variables beside its options; empty if unknown."""
    return case.facts.environment.variables if case.facts.environment is not None else {}


def nodes(case: Case) -> int:
    """The number of nodes, by torchrun, deepspeed, verl or ms-swift. Raises Unknown."""
    launch = case.need(Launch)
    if launch.program == "verl":
        return number(case, "trainer.nnodes", 1)
    if "num_gpus" in launch.options:
        return number(case, "num_nodes", 1)
    if "num_machines" in launch.options:  # accelerate's
        return number(case, "num_machines")
    if not launch.program.endswith("swift") or "nproc_per_node" in launch.options:
        return number(case, "nnodes", 1)
    if "NNODES" in unseen(case):
        raise Unresolved("NNODES is known when the launch runs")
    count = variables(case).get("NNODES", "1")
    if not count.isdecimal() or not int(count[:6]):
        raise Unknown("NNODES is no number here")
    return int(count[:6])


def unseen(case: Case) -> tuple[str, ...]:
    """Variables set to unknown values."""
    facts = case.facts.environment
    return facts.withheld if facts is not None else ()


def version(case: Case) -> str:
    """The version of the megatron-core that would be imported; "" without one."""
    with contextlib.suppress(NotApplicable, Unknown):
        return core_version(case)
    python = case.facts.python
    distribution = python.find("megatron-core") if python is not None else None
    return distribution.version if distribution is not None else ""


def behaviour_refs(case: Case, component: str, identity: str) -> tuple[str, ...]:
    rows = case.catalog.component(component).behaviours
    return tuple(source.url for row in rows if row.id == identity for source in row.sources)


@TEXTS.check("launch-resolved")
def _launch_resolved(case: Case) -> Findings:
    options(case)
    launch = case.need(Launch)
    spots = launch.unresolved
    if spots:
        shown = [
            f"`{spot.name}`{spot.argument and ' for '}{spot.argument} (line {spot.location.line})"
            for spot in spots[:_SHOWN_SPOTS]
        ]
        left = len(spots) - len(shown)
        observed = "; ".join((*shown, *((f"and {left} more",) if left else ())))
        remedy = Remedy(summary=_how_to_resolve(case, launch))
        yield TEXTS.finding("elsewhere", spots[0].location, remedy=remedy, observed=observed)


def _how_to_resolve(case: Case, launch: Launch) -> str:
    if all(spot.name.endswith(".py") for spot in launch.unresolved):
        return (
            "See in the program whether its sizes fit these ranks, and accept with "
            "--allow-unresolved that they are not judged"
        )
    # Unresolved spots list the model by its name, and a value by its expression.
    if not all(launch.model_name.startswith(spot.name) for spot in launch.unresolved):
        return (
            "Give them defaults in the script, such as ${TP:-8}, or accept with "
            "--allow-unresolved that they are not judged"
        )
    near = ", ".join(find_near(case.catalog, launch.model_name))
    if near:
        return (
            f"Name one of {near} if that is meant, or the folder of the model's config.json, or "
            "accept with --allow-unresolved that it is not judged"
        )
    return (
        "Name the folder of the model's config.json, or accept with --allow-unresolved that it is "
        "not judged"
    )


@TEXTS.check("fp8-on-a2-a3")
def _fp8_on_a2_a3(case: Case) -> Findings:
    launch_options = options(case)
    asked = {
        name: value
        for name, value in launch_options.items()
        if name.startswith("fp8") and flag(case, name)
    }
    if not asked:
        is_given(case, "fp8")  # raises where not all options can be seen
        return
    chip = family(case)
    if chip.fp8 is None:
        raise Unknown(f"no source says whether {chip.title} has FP8")
    if not chip.fp8:
        observed = ", ".join(f"--{name} {value}".rstrip() for name, value in asked.items())
        where, refs = at(case, *asked), urls(chip.sources)
        yield TEXTS.finding("no-fp8", where, refs=refs, chip=chip, observed=observed)


@TEXTS.check("ep-expert-cap")
def _ep_expert_cap(case: Case) -> Findings:
    options(case)
    if not is_given(case, "num_experts"):
        raise NotApplicable("the launch command does not say how many experts there are")
    if not case.need(Launch).program and not is_given(case, "expert_model_parallel_size"):
        raise NotApplicable("the launch command spreads no experts")
    experts, size = number(case, "num_experts"), number(case, "expert_model_parallel_size", 1)
    if not holds_experts(experts, size):
        where = at(case, "expert_model_parallel_size", "num_experts")
        refs, most = behaviour_refs(case, "mcore-bridge", "expert-cap"), MOST_EXPERTS
        each, least = -(-experts // size), -(-experts // most)
        shown = f"num_experts {experts}, expert_model_parallel_size {size}"
        yield TEXTS.finding(
            "many-experts", where, refs=refs, each=each, most=most, shown=shown, least=least
        )
