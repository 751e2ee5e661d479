"""Random numbers: an NPU generator draws what the CPU generator with the same seed draws.

The state of an NPU generator is a seed and an offset (NPUGeneratorImpl::get_state). Each state met
is kept under them, so restoring one replays its numbers. Another offset starts another stream.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_npu

from . import factories

REMEMBERED = 4096  # states, 5 KB each
_states: OrderedDict[tuple[int, int], torch.Tensor] = OrderedDict()


def _position(generator: torch.Generator) -> tuple[int, int]:
    seed, offset = generator.get_state().view(torch.int64).tolist()
    return seed, offset


def _remember(position: tuple[int, int], state: torch.Tensor) -> None:
    _states[position] = state
    _states.move_to_end(position)
    if len(_states) > REMEMBERED:
        _states.popitem(last=False)


def _twister_at(seed: int, offset: int) -> torch.Generator:
    twister = torch.Generator()
    if (state := _states.get((seed, offset))) is not None:
        twister.set_state(state)
    else:
        twister.manual_seed((seed + 0x9E3779B97F4A7C15 * offset) % 2**64)
    return twister


def drawing(
    generator: torch.Generator | None,
    device: torch.device,
    elements: int,
    draw: Callable[[torch.Generator], Any],
) -> Any:
    """Call `draw` with the CPU generator at the NPU generator's place, then move that place on.

    The offset grows with the number of elements, in steps of four (NPUGeneratorState::increase).
    """
    torch.npu.init()
    index = torch.npu.current_device() if device.index is None else device.index
    npu = generator or torch_npu.npu._get_generator(torch.device("npu", index))
    if npu.device.type == "cpu":
        return draw(npu)
    seed, offset = _position(npu)
    twister = _twister_at(seed, offset)
    _remember((seed, offset), twister.get_state())
    result = draw(twister)
    moved = (seed, offset + max(4, (elements + 3) // 4 * 4))
    _remember(moved, twister.get_state())
    npu.set_state(factories.tensor(moved, dtype=torch.int64).view(torch.uint8))
    return result


def elements_in(values: Sequence[Any]) -> int:
    return max((v.numel() for v in values if isinstance(v, torch.Tensor)), default=0)


def reserve(increment: int) -> tuple[int, int]:
    """Seed and offset of the current device's generator, which moves on (philox_engine_inputs)."""
    npu = torch_npu.npu._get_generator(torch.device("npu", torch.npu.current_device()))
    seed, offset = _position(npu)
    moved = (seed, offset + (increment + 3) // 4 * 4)
    _remember(moved, _twister_at(seed, offset).get_state())
    npu.set_state(factories.tensor(moved, dtype=torch.int64).view(torch.uint8))
    return seed, offset
