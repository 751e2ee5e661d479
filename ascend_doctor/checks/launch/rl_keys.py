"""Keys of MindSpeed-RL's configurations that its classes do not have."""

import re

from ascend_doctor.checks.launch.options import options
from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Case, Findings, Texts, first_of
from ascend_doctor.judging.spelling import slip_of

TEXTS = Texts("launches")

MINDSPEED_RL = "Ascend/MindSpeed-RL@05a90d77"
ROLES = ("actor", "ref", "reward", "critic")
_PARTS = {
    "megatron_training": "MegatronConfig",
    **{f"{role}_config": "MegatronConfig" for role in ROLES},
    "rl_config": "RLConfig",
    "generate_config": "GenerateConfig",
    "profiler_config": "ProfilerConfig",
    "msprobe_config": "MsprobeConfig",
}
_SAMPLING = ("generate_config", "sampling_config")
_SHOWN = 8


@TEXTS.check("run-rl-keys")
def _run_rl_keys(case: Case) -> Findings:
    options(case)
    launch = case.need(Launch)
    if launch.program != "mindspeed-rl":
        raise NotApplicable("the launch has no configuration of MindSpeed-RL")
    others: list[str] = []
    for key in launch.values:
        part, *rest = key.split(".")
        owner = f"model.{rest[0]}" if part == "model" and rest else part
        named = [name.replace("-", "_") for name in (rest[1:] if part == "model" else rest)]
        known, name = _find_names(case, part, named)
        if not known or not name or name in known:
            continue
        close = slip_of(name, known)
        if not close:
            others.append(key)
            continue
        where = launch.places.get(f"key {key}")
        yield TEXTS.finding("no-key", where, name=name, owner=owner, close=close)
    yield from _find_lost_models(launch)
    if others:
        where = launch.places.get(f"key {others[0]}")
        yield TEXTS.finding("other-keys", where, others=first_of(others, _SHOWN))


def _find_names(case: Case, part: str, names: list[str]) -> tuple[frozenset[str], str]:
    table = case.catalog.options
    if part not in {*_PARTS, "model"}:
        parts = frozenset({*_PARTS, "model", "defaults"})
        return (parts, part) if slip_of(part, parts) else (frozenset(), "")
    if part == "profiler_config":  # profiler_config.integrated.stage
        names = names[1:]
    if not names:
        return frozenset(), ""
    own = table.of(f"MindSpeed-RL/{_PARTS.get(part, 'MegatronConfig')}")
    if part in {"generate_config", "rl_config"} and len(names) > 1 and names[0] in own:
        inner = "num_npus" if names[0].endswith("_resource") else ""
        sampled = table.of("MindSpeed-RL/GenerateConfig.sampling_config")
        if (part, names[0]) == _SAMPLING:
            return sampled, names[1]
        return (frozenset({inner}), names[1]) if inner else (frozenset(), "")
    return own | {"model"}, names[0]


def _find_lost_models(launch: Launch) -> Findings:
    models = {key.split(".")[1] for key in launch.values if re.match(r"model\.[^.]+\.", key)}
    for part in ("megatron_training", *(f"{role}_config" for role in ROLES)):
        name = launch.values.get(f"{part}.model", "")
        if models and name and UNTOLD not in name and name not in models:
            where, models_ = launch.places.get(f"{part}.model"), " or ".join(sorted(models))
            yield TEXTS.finding("no-model", where, name=name, part=part, models_=models_)
