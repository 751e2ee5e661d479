"""Every collective of torch_npu's ProcessGroupHCCL against values that are computed here.

Each rank checks what it gets; the lines say how many combinations were right.
"""
# ruff: noqa: T201 - the test reads what it prints

import functools
import itertools
import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}
TYPES = (
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
# Bytes. The last takes three rounds through the memory that ranks share, and
# most of the time. How elements are reduced does not depend on the round.
SMALL, LARGE = (1, 1 << 10), 9 << 20

torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("hccl")
rank, ranks = dist.get_rank(), dist.get_world_size()
everyone = range(ranks)
checked = 0
refused: set[str] = set()


def repeat(pattern: torch.Tensor, count: int) -> torch.Tensor:
    return pattern.repeat(-(-count // 3))[:count]


@functools.cache
def values(owner: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """1, 2, 3, 1 ... shifted by the rank: different for ranks and places, exact in every type."""
    return repeat(((torch.arange(3) + owner) % 3 + 1).to(dtype), count)


def allows(what: str, dtype: torch.dtype, collective: Callable[[], object]) -> bool:
    """Run a collective, unless torch_npu itself refuses the type of its elements."""
    try:
        collective()
    except RuntimeError as error:
        if "Unsupported data type" not in str(error):
            raise
        refused.add(f"{what}:{str(dtype).removeprefix('torch.')}")
        return False
    return True


def reduce_parts(name: str, parts: list[torch.Tensor]) -> torch.Tensor:
    count = parts[0].numel()
    few = torch.stack([part[:3].to(torch.int64) for part in parts])
    result = {"sum": few.sum, "product": few.prod, "max": few.amax, "min": few.amin}[name](0)
    return repeat(result.to(parts[0].dtype), count)


def same(what: str, got: torch.Tensor, expected: torch.Tensor) -> None:
    global checked  # noqa: PLW0603 - this is a script
    if not torch.equal(got.cpu(), expected):
        sys.exit(f"rank {rank}: {what}: got {got.flatten()[:8]}, wanted {expected.flatten()[:8]}")
    checked += 1


def reductions(name: str, dtype: torch.dtype, count: int) -> None:
    op, what = REDUCTIONS[name], f"{name} {dtype} {count}"
    whole = reduce_parts(name, [values(peer, count, dtype) for peer in everyone])
    tensor = values(rank, count, dtype).npu()
    if allows("all_reduce", dtype, lambda: dist.all_reduce(tensor, op)):
        same(f"all_reduce {what}", tensor, whole)
    root = values(rank, count, dtype).npu()
    if allows("reduce", dtype, lambda: dist.reduce(root, ranks - 1, op)) and rank == ranks - 1:
        same(f"reduce {what}", root, whole)
    pieces = [values(rank + peer, count, dtype).npu() for peer in everyone]
    mine = torch.empty_like(pieces[0])
    expected = reduce_parts(name, [values(peer + rank, count, dtype) for peer in everyone])
    if allows("reduce_scatter", dtype, lambda: dist.reduce_scatter(mine, pieces, op)):
        same(f"reduce_scatter {what}", mine, expected)
        dist.reduce_scatter_tensor(mine, torch.cat(pieces), op)
        same(f"reduce_scatter_tensor {what}", mine, expected)


def uneven_reductions(name: str, dtype: torch.dtype) -> None:
    counts = [5 * peer + 1 for peer in everyone]
    pieces = [values(rank + peer, counts[peer], dtype).npu() for peer in everyone]
    mine = torch.empty_like(pieces[rank])
    op = REDUCTIONS[name]
    expected = reduce_parts(name, [values(peer + rank, counts[rank], dtype) for peer in everyone])
    if allows("reduce_scatter", dtype, lambda: dist.reduce_scatter(mine, pieces, op)):
        same(f"uneven reduce_scatter {name} {dtype}", mine, expected)


def moves(dtype: torch.dtype, count: int) -> None:
    what = f"{dtype} {count}"
    mine = values(rank, count, dtype).npu()
    all_values = [values(peer, count, dtype) for peer in everyone]
    tensor = mine.clone()
    dist.broadcast(tensor, ranks - 1)
    same(f"broadcast {what}", tensor, all_values[-1])
    gathered = [torch.empty_like(mine) for _ in everyone]
    dist.all_gather(gathered, mine)
    same(f"all_gather {what}", torch.stack(gathered), torch.stack(all_values))
    together = torch.empty(ranks * count, dtype=dtype, device="npu")
    dist.all_gather_into_tensor(together, mine)
    same(f"all_gather_into_tensor {what}", together, torch.cat(all_values))
    target = gathered if rank == 0 else None
    dist.gather(mine, target, 0)
    if rank == 0:
        same(f"gather {what}", torch.stack(gathered), torch.stack(all_values))
    tensor = torch.empty_like(mine)
    dist.scatter(tensor, [chunk.npu() for chunk in all_values] if rank == 0 else None, 0)
    same(f"scatter {what}", tensor, all_values[rank])
    pieces = torch.cat([values(rank * 5 + peer, count, dtype) for peer in everyone]).npu()
    dist.all_to_all_single(together, pieces)
    expected = torch.cat([values(peer * 5 + rank, count, dtype) for peer in everyone])
    same(f"all_to_all_single {what}", together, expected)
    ring(mine, what)


def ring(mine: torch.Tensor, what: str) -> None:
    """Send to the next rank and receive from the last, at once and one after the other."""
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    expected = values(before, mine.numel(), mine.dtype)
    tensor = torch.empty_like(mine)
    steps = [dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, tensor, before)]
    for work in dist.batch_isend_irecv(steps):
        work.wait()
    same(f"batch_isend_irecv {what}", tensor, expected)
    tensor = torch.empty_like(mine)
    for sends in (rank % 2 == 0, rank % 2 == 1):
        if sends:
            dist.send(mine, after)
        else:
            dist.recv(tensor, before)
    same(f"send and recv {what}", tensor, expected)


def uneven_moves(dtype: torch.dtype) -> None:
    counts = [3 * peer + 1 for peer in everyone]
    gathered = [torch.empty(count, dtype=dtype, device="npu") for count in counts]
    dist.all_gather(gathered, values(rank, counts[rank], dtype).npu())
    for peer in everyone:
        same(f"uneven all_gather {dtype}", gathered[peer], values(peer, counts[peer], dtype))
    # rank r sends s + 1 elements to rank s, and a rank may send nothing
    sent = torch.cat([values(rank + peer, peer, dtype) for peer in everyone]).npu()
    got = torch.empty(rank * ranks, dtype=dtype, device="npu")
    dist.all_to_all_single(got, sent, [rank] * ranks, list(everyone))
    expected = torch.cat([values(peer + rank, rank, dtype) for peer in everyone])
    same(f"uneven all_to_all_single {dtype}", got, expected)
    pieces = [values(rank, peer + 1, dtype).npu() for peer in everyone]
    outputs = [torch.empty(rank + 1, dtype=dtype, device="npu") for _ in everyone]
    dist.all_to_all(outputs, pieces)
    for peer in everyone:
        same(f"uneven all_to_all {dtype}", outputs[peer], values(peer, rank + 1, dtype))


def groups() -> None:
    """Groups of neighbours and of every second rank, made by all ranks in the same order."""
    pairs = [[first, first + 1] for first in range(0, ranks, 2)]
    strides = [list(range(first, ranks, 2)) for first in (0, 1)]
    made = [(members, dist.new_group(members)) for members in (*pairs, *strides)]
    for members, group in made:
        if rank in members:
            tensor = torch.full((1000,), float(rank)).npu()
            dist.all_reduce(tensor, group=group)
            same(f"all_reduce in {members}", tensor, torch.full((1000,), float(sum(members))))


def objects_and_overlap() -> None:
    gathered: list[object] = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "pad": "x" * 100 * rank})
    assert [answer["rank"] for answer in gathered] == list(everyone)  # type: ignore[index]
    listed = [f"from {rank}"]
    dist.broadcast_object_list(listed, 1)
    assert listed == ["from 1"]
    tensors = [torch.full((1 << 18,), float(rank + i)).npu() for i in range(4)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for i, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        work.wait()
        expected = float(sum(everyone) + i * ranks)
        same("asynchronous all_reduce", tensor * 1, torch.full((1 << 18,), expected))
    dist.barrier()


def each(step: Callable[..., None], *ways: tuple[object, ...]) -> None:
    before = checked
    for way in ways:
        step(*way)
    if rank == 0:
        print(step.__name__, checked - before, flush=True)


def elements(size: int, dtype: torch.dtype) -> int:
    return max(1, size // int(dtype.itemsize))


each(
    reductions,
    *((n, t, elements(s, t)) for n in REDUCTIONS for t in TYPES for s in SMALL),
    *((n, t, elements(LARGE, t)) for n, t in zip(itertools.cycle(REDUCTIONS), TYPES, strict=False)),
)
each(uneven_reductions, *((n, t) for n in REDUCTIONS for t in TYPES))
each(moves, *((t, elements(s, t)) for t in TYPES for s in (*SMALL, LARGE)))
each(uneven_moves, *((t,) for t in TYPES))
each(groups, ())
each(objects_and_overlap, ())
if rank == 0:
    print("refused", *sorted(refused), flush=True)
dist.destroy_process_group()
