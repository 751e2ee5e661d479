"""Keys of MindSpeed-RL's configurations that its classes do not have."""

import re

from ascend_doctor.checks.launch.options import options
from ascend_doctor.facts import Launch
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts
from ascend_doctor.judging.spelling import slip_of

TEXTS = Texts("launches")

_CLASSES = (
    *("MegatronConfig", "RLConfig", "GenerateConfig", "GenerateConfig.sampling_config"),
    *("RLConfig.actor_resource", "ProfilerConfig", "MsprobeConfig"),
)


@TEXTS.check("run-rl-keys")
def _run_rl_keys(case: Case) -> Findings:
    options(case)
    launch = case.need(Launch)
    if launch.program != "mindspeed-rl":
        raise NotApplicable("the launch has no configuration of MindSpeed-RL")
    known = case.catalog.options.of(*(f"MindSpeed-RL/{name}" for name in _CLASSES))
    for key in launch.values:
        owner, _, name = re.sub(r"(\.\d+)+$", "", key.lstrip("+")).rpartition(".")
        close = "" if name in known else slip_of(name, known)
        if close:
            where = launch.places.get(f"key {key}")
            yield TEXTS.finding("no-key", where, name=name, owner=owner, close=close)
