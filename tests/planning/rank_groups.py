"""Digests of the groups of Megatron's own rank generator, for layouts given as JSON."""

import hashlib
import json
import sys

from megatron.core.parallel_state import RankGenerator

# initialize_model_parallel's order, and its names of each kind.
ORDER = "tp-cp-ep-dp-pp"
DENSE = {"tp": "tp", "cp": "cp", "dp": "dp", "pp": "pp", "dp-cp": "dp-cp", "tp-cp": "tp-cp"}
DENSE |= {"tp-dp": "tp-dp", "tp-pp": "tp-pp", "tp-dp-cp": "tp-dp-cp"}
EXPERT = {"ep": "ep", "etp": "tp", "edp": "dp", "etp-ep": "tp-ep", "etp-ep-pp": "tp-ep-pp"}


def digest(groups: list[list[int]]) -> str:
    return hashlib.sha256(json.dumps(groups).encode()).hexdigest()


def answer(layout: dict[str, int]) -> dict[str, str]:
    npus, tp, pp, cp, ep = (layout[name] for name in ("npus", "tp", "pp", "cp", "ep"))
    etp = layout["etp"] or tp
    dense = RankGenerator(tp=tp, ep=1, dp=npus // (tp * pp * cp), pp=pp, cp=cp, order=ORDER)
    expert = RankGenerator(tp=etp, ep=ep, dp=npus // (etp * ep * pp), pp=pp, cp=1, order=ORDER)
    groups = {name: dense.get_ranks(token) for name, token in DENSE.items()}
    groups |= {name: expert.get_ranks(token) for name, token in EXPERT.items()}
    return {name: digest(groups) for name, groups in groups.items()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps([answer(request) for request in json.load(sys.stdin)]) + "\n")
