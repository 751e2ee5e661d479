"""A launch command that the user gave: its options, as far as checks ask for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ascend_doctor.facts import Launch

OPTIONS = (
    *("context_parallel_size", "expert_model_parallel_size", "expert_tensor_parallel_size"),
    *("num_experts", "fp8", "fp8_format", "fp8_recipe", "fp8_param_gather"),
    *("train_type", "tuner_type", "target_modules", "use_mcore_gdn"),
)
_ASSIGNED = re.compile(r"(?:--)?\+{0,2}(?:[\w-]+\.)*([\w-]+)=(.*)", re.DOTALL)


def parse_options(command: Sequence[str]) -> dict[str, str]:
    """Options by name: ``--a-b 1``, ``--a_b=1``, ``x.y.a_b=1`` (Hydra), ``A_B=1`` (the shell's).

    The last of several wins, as it does with argparse.
    """
    found: dict[str, str] = {}
    for place, word in enumerate(command):
        assigned = _ASSIGNED.fullmatch(word)
        if assigned:
            name, value = assigned.group(1), assigned.group(2)
        elif word.startswith("--"):
            name = word[2:]
            following = command[place + 1] if place + 1 < len(command) else "--"
            value = "" if following.startswith("--") else following
        else:
            continue
        key = name.replace("-", "_").lower()
        if key in OPTIONS:
            found[key] = value
    return found


def launch(command: Sequence[str]) -> Launch:
    """The options of a command; an empty command is none."""
    if not command:
        return Launch()
    return Launch(source="the command line", given=True, options=parse_options(command))
