"""Rebuilds padding masks from lengths on the device, and compares them with a loop.

After a gather the mask is made again for the gathered length: ``arange(length) < lengths``. That is
right for padding on the right alone. Recorded is what it makes of padding on the left, and that a
count and the position of the last token tell the two apart.
"""

from __future__ import annotations

import random
from typing import Any

import _probe
from _probe import Probe

MANIFEST = {
    "order": 150,
    "level": 2,
    "seconds": 120,
    "seconds_cpu": 90,
    "needs": ["device"],
    "forked": True,
    "does": (
        "padding masks from lengths, gathered over up to four ranks, against a loop; padding on "
        "the left"
    ),
    "on_cpu": "the same",
}

SEED = 7
BATCHES = 5
LONGEST = 17
TP = (1, 2, 4)
LEFT = [0, 0, 1, 1]


def body(probe: Probe) -> None:
    """Padding masks from lengths, on the device."""
    torch = probe.torch()
    source = random.Random(SEED)  # noqa: S311 - lengths are no secret
    for batch in range(1, BATCHES + 1):
        for ranks in TP:
            with probe.stage(f"{batch} sequences, gathered over {ranks} ranks"):
                # A rank has a part of the sequence; the mask must be as long as the whole.
                part = source.randint(1, LONGEST)
                lengths = [source.randint(0, part * ranks) for _ in range(batch)]
                got = rebuilt(probe, torch, lengths, part * ranks)
                if probe.tampers(probe.stage_name):
                    got[0][0] = 1 - got[0][0]
                expected = [
                    [int(position < length) for position in range(part * ranks)]
                    for length in lengths
                ]
                probe.expect(f"mask of lengths {lengths}, {ranks} ranks", got, expected)
    with probe.stage("padding on the left"):
        (got,) = rebuilt(probe, torch, [sum(LEFT)], len(LEFT))
        probe.measure("left", {"mask": LEFT, "rebuilt": got, "right_padded": right_padded(LEFT)})
        probe.expect("mask of padding on the left, rebuilt", got, sorted(LEFT, reverse=True))


def rebuilt(probe: Probe, torch: Any, lengths: list[int], longest: int) -> list[list[int]]:
    """The vectorised form, as rows of 0 and 1."""
    places = torch.arange(longest, device=probe.torch_device())
    mask = places[None] < torch.tensor(lengths, device=probe.torch_device())[:, None]
    return [[int(flag) for flag in row] for row in mask.tolist()]


def right_padded(mask: list[int]) -> bool:
    """Whether no token comes after padding."""
    return not any(mask[sum(mask) :])


if __name__ == "__main__":
    _probe.main(body, name="attention-mask-rebuild")
