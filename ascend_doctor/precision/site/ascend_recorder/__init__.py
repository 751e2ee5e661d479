"""Records what modules, gradients and optimizers of a job compute; runs in the job's interpreter.

The folder that ASCEND_DOCTOR_RECORD names gets a file a rank (docs/compare.md has the format).
Nothing else of the job changes than its seed and its dropout: no random number is drawn, no tensor
is written.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from typing import Any

DEVICE = "ASCEND_DOCTOR_DEVICE"
SEED = "ASCEND_DOCTOR_RECORD_SEED"
KEEP_DROPOUT = "ASCEND_DOCTOR_RECORD_DROPOUT"
_DROPOUTS = {
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), (1, "p")),
    **dict.fromkeys(("alpha_dropout", "feature_alpha_dropout"), (1, "p")),
    "scaled_dot_product_attention": (4, "dropout_p"),
}


def install() -> Any:
    """Seed generators, and record from now on; without a folder do nothing.

    Returns the RankRecording, or None.
    """
    folder = os.environ.get("ASCEND_DOCTOR_RECORD")
    if not folder:
        return None
    if os.environ.get(DEVICE) == "cpu":
        from ascend_recorder.without_npu import hide_npus

        hide_npus()
    if seed := os.environ.get(SEED):
        _seed(int(seed))
    if not os.environ.get(KEEP_DROPOUT):
        _disable_dropout()
    from ascend_recorder.recording import RankRecording
    from ascend_recorder.watching import watch

    recording = RankRecording(folder, int(os.environ.get("ASCEND_DOCTOR_RECORD_STEPS", "3")))
    watch(recording)
    # A worker of a DataLoader is a copy of its rank and computes nothing that is compared.
    os.register_at_fork(after_in_child=recording.disable)
    return recording


def _seed(seed: int) -> None:
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)


def _disable_dropout() -> None:
    """A CPU and an NPU have different generators, so their masks differ."""
    import torch

    for name, (position, keyword) in _DROPOUTS.items():
        if original := getattr(torch.nn.functional, name, None):
            setattr(torch.nn.functional, name, _without(original, position, keyword))


def _without(original: Any, position: int, keyword: str) -> Any:
    @functools.wraps(original)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if len(arguments) > position:
            arguments = (*arguments[:position], 0.0, *arguments[position + 1 :])
        else:
            keywords = {**keywords, keyword: 0.0}
        return original(*arguments, **keywords)

    return call
