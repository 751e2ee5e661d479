"""What MindSpeed-RL's roles train with: their settings laid over the common ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from ascend_doctor.checks.launch.options import options, trains_roles
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Place
from ascend_doctor.judging.judge import Case, error

MINDSPEED_RL = "Ascend/MindSpeed-RL@05a90d77"
ROLES = ("actor", "ref", "reward", "critic")
_VALIDATE = f"{MINDSPEED_RL}:mindspeed_rl/config_cls/validate_config.py"
# MindSpeed-RL calls the role ref_config and its devices reference_resource.
_RESOURCES = {"ref": "reference"}
_INT = re.compile(r"\d{1,12}")
_OFF = {"", "false", "no", "off", "null", "none", "~", "0"}


class RoleValue(msgspec.Struct, frozen=True):
    """A value that is in force, and where it is set; nowhere where it is a default."""

    text: str
    location: Place | None = None

    @property
    def there(self) -> bool:
        return self.text.lower() not in {"", "null", "none", "~"}

    @property
    def on(self) -> bool:
        return self.text.lower() not in _OFF


class RoleSettings:
    """The settings of a launch, with those of its roles laid over the common ones."""

    def __init__(self, launch: Launch) -> None:
        self._values, self._places, self._partial = launch.values, launch.places, launch.partial

    def of(self, key: str, unset: str = "") -> RoleValue:
        """A setting by its dotted key. Raises Unresolved where it is not known."""
        return self._first((key,), unset)

    def of_role(self, role: str, name: str, unset: str = "") -> RoleValue:
        """A setting of Megatron's as a role has it."""
        before = (f"{role}_config", "megatron_training")
        model = self._first([f"{part}.model" for part in before], "").text
        parts = (*before, *((f"model.{model}",) if model else ()))
        return self._first([f"{part}.{name}" for part in parts], unset)

    def has(self, part: str) -> bool:
        """Whether a part has keys."""
        return any(key.startswith(f"{part}.") for key in self._values)

    def items(self, key: str) -> tuple[str, ...]:
        """The items of a list."""
        return tuple(
            text for name, text in self._values.items() if re.fullmatch(rf"{key}\.\d+", name)
        )

    def number(self, setting: RoleValue) -> int:
        """The setting as a number; 0 where it is not given or none."""
        return int(setting.text) if _INT.fullmatch(setting.text) else 0

    def count(self, key: str, unset: int = 0) -> int:
        """The number of a dotted key."""
        return self.number(self.of(key, str(unset)))

    def size(self, role: str, name: str, unset: int = 0) -> int:
        """The number of a setting of a role."""
        return self.number(self.of_role(role, name, str(unset)))

    def parts(self, role: str) -> int:
        """TP·PP·CP of a role."""
        sizes = ("tensor_model", "pipeline_model", "context")
        product = 1
        for name in sizes:
            product *= self.size(role, f"{name}_parallel_size", 1)
        return product

    def resource(self, role: str) -> str:
        """The key of the NPUs of a role; that of the actor where they share them."""
        key = f"rl_config.{_RESOURCES.get(role, role)}_resource.num_npus"
        return key if key in self._values else "rl_config.actor_resource.num_npus"

    @property
    def integrated(self) -> bool:
        """Whether one worker has all roles."""
        return self.of("rl_config.use_integrated_worker", "true").on

    def roles(self) -> tuple[str, ...]:
        """The roles whose sizes MindSpeed-RL validates."""
        apart = [role for role in ("ref", "reward") if self.has(f"{role}_config")]
        critic = ["critic"] if self.has("rl_config.critic_resource") else []
        return ("actor", *(apart if not self.integrated else ()), *critic)

    def _first(self, keys: tuple[str, ...] | list[str], unset: str) -> RoleValue:
        for key in keys:
            if key in self._values:
                if UNTOLD in self._values[key]:
                    raise Unresolved(f"{key} is known when the launch runs")
                return RoleValue(self._values[key], self._places.get(key))
        if self._partial:
            raise Unresolved(f"whether {keys[0]} is given")
        return RoleValue(unset)


def role_settings(case: Case) -> tuple[Launch, RoleSettings]:
    """The configuration of MindSpeed-RL that is judged. Raises NotApplicable."""
    options(case)
    launch = case.need(Launch)
    if launch.program != "mindspeed-rl":
        raise NotApplicable("the launch has no configuration of MindSpeed-RL")
    return launch, RoleSettings(launch)


def refuse(
    *,
    title: str,
    observed: str,
    required: str,
    line: int,
    location: Place | None,
    ref: str = _VALIDATE,
) -> Finding:
    return error(
        title,
        observed=observed,
        required=required,
        because="MindSpeed-RL raises ValueError before it trains.",
        refs=(f"{ref}:{line}",),
        location=location,
    )


_Rule = Callable[[RoleSettings], Iterator[Finding]]


def apply_rules(case: Case, rules: tuple[_Rule, ...]) -> Iterator[Finding]:
    """What the rules find; a value that is not known keeps only its own rule from judging."""
    launch, settings = role_settings(case)
    if not trains_roles(launch):
        raise NotApplicable("the configuration has no actor")
    lacking: list[Unresolved] = []
    for rule in rules:
        yield from _try(rule, settings, lacking)
    for reason in lacking:
        raise reason


def _try(rule: _Rule, settings: RoleSettings, lacking: list[Unresolved]) -> Iterator[Finding]:
    try:
        yield from rule(settings)
    except Unresolved as reason:
        lacking.append(reason)
