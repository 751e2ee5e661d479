"""Hydra's overrides: values of their key's kind."""

from ascend_doctor.checks.launch.option_names import FLOAT
from ascend_doctor.checks.launch.options import options
from ascend_doctor.checks.launch.rules import is_colocated
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts
from ascend_doctor.judging.spelling import edit_distance
from ascend_doctor.patterns import patterns_of

TEXTS = Texts("launches")

INT, _ROLE, _NUMERIC, _STRAY = patterns_of(__file__)
_CONFIGS = {"mindspeed-rl": "Ascend/MindSpeed-RL@05a90d77:mindspeed_rl/config_cls"}
_VERL = "verl-project/verl@1dda039b:verl/trainer/config"
_TRUTH = frozenset({"true", "false"})
_YAML_TRUTH = {"mindspeed-rl": frozenset({"yes", "no", "on", "off"})}
_NOT_GIVEN = frozenset({"null", "none", "~"})
# Counts of at least one in every framework with such keys; so are all sizes of micro batches.
_COUNTS = {
    *("n", "n_gpus_per_node", "num_gpus", "num_npus", "ppo_mini_batch_size"),
    *("policy_mini_batch_size", "train_batch_size", "train_global_batch_size"),
    *(f"{name}_parallel_size" for name in ("tensor", "pipeline", "expert", "context")),
    *(f"{name}_model_parallel_size" for name in ("tensor", "pipeline", "expert")),
}


def overriding_launch(case: Case) -> Launch:
    """The launch. Raises NotApplicable where it overrides no keys."""
    options(case)
    launch = case.need(Launch)
    if not any("." in key for key in launch.values):
        raise NotApplicable("the launch command overrides no keys")
    return launch


@TEXTS.check("run-override-values")
def _run_override_values(case: Case) -> Findings:
    launch = overriding_launch(case)
    known = launch.program in {"verl", *_CONFIGS}
    kinds = case.catalog.override_keys if known else {}
    numbers = _kinds_of_megatron(case) if launch.program in _CONFIGS else {}
    tails = _tails(kinds)
    for stray in launch.strays[:1]:
        yield TEXTS.finding("stray", stray.location, stray=stray)
    for key, value in launch.values.items():
        bare = value.strip("\"'")
        if "." not in key or UNTOLD in value or not bare or bare[0] in "[{$":
            continue
        name = key.lstrip("+")
        if launch.program == "verl" and any(each.startswith(f"{name}.") for each in kinds):
            yield TEXTS.finding(
                "section", launch.places.get(f"key {key}"), refs=(_VERL,), name=name, bare=bare
            )
            continue
        own = _ROLE.sub("megatron_training.", name)
        kind = numbers.get(own) or kinds.get(own) or tails.get(".".join(name.split(".")[-2:]), "")
        expected = _describe_lack(name, kind, bare, launch)
        if expected:
            where, refs = launch.places.get(key), (_CONFIGS.get(launch.program, _VERL),)
            yield TEXTS.finding(
                "other-kind", where, refs=refs, name=name, bare=bare, expected=expected
            )


def _kinds_of_megatron(case: Case) -> dict[str, str]:
    names = {"flag": "bool", "int": "count", "float": "float"}
    resources = ("actor", "reference", "reward", "critic", "vit")
    return {
        **{f"rl_config.{role}_resource.num_npus": "count" for role in resources},
        **{
            f"megatron_training.{name.replace('-', '_')}": names[kind]
            for name, kind in case.catalog.option_kinds.items()
            if kind in names
        },
    }


def _tails(kinds: dict[str, str]) -> dict[str, str]:
    seen: dict[str, set[str]] = {}
    for key, kind in kinds.items():
        seen.setdefault(".".join(key.split(".")[-2:]), set()).add(kind)
    return {tail: next(iter(several)) for tail, several in seen.items() if len(several) == 1}


def _describe_lack(  # noqa: PLR0911 - a kind each
    name: str, kind: str, value: str, launch: Launch
) -> str:
    low, last = value.lower(), name.rsplit(".", maxsplit=1)[-1]
    if kind.endswith("|"):
        # A recipe may register other words; one letter off a known word is a slip.
        words = kind.rstrip("|").split("|")
        near = [word for word in words if value not in words and edit_distance(low, word) == 1]
        return " or ".join(near)
    if slip := _slip_of_truth(low):
        return slip
    if kind == "count" and not INT.fullmatch(value):
        return "" if low in _NOT_GIVEN else "a whole number"
    if kind == "bool":
        fine = {*_TRUTH, *_NOT_GIVEN, "0", "1", *_YAML_TRUTH.get(launch.program, ())}
        return "" if low in fine else "True or False"
    # An integer default does not show that fractions are refused.
    numeric = kind in {"int", "float"} or (last == "lr" and _NUMERIC.match(value))
    if not FLOAT.fullmatch(value):
        # Recipes take words, too: test_freq=after_each_epoch.
        word = value.isalpha() and low not in {*_NOT_GIVEN, *_TRUTH}
        own = word and is_colocated(launch.module)
        return "a number" if numeric and (own or _STRAY.fullmatch(value)) else ""
    if last == "gpu_memory_utilization" and not 0 < float(value) <= 1:
        return "a share of the memory, above 0 and at most 1"
    is_count = last in _COUNTS or ("micro_" in last and "batch_size" in last)
    own = last == "train_batch_size" and not is_colocated(launch.module)
    return "1 or more" if is_count and float(value) < 1 and not own else ""


def _slip_of_truth(value: str) -> str:
    """True or False for a word with a letter missing, added or exchanged with the next; else ""."""
    for word in _TRUTH:
        same = len(value) != len(word) or sorted(value) == sorted(word)
        if value != word and same and edit_distance(value, word) == 1:
            return word.capitalize()
    return ""
