"""Moves and reduces distinguishing values with every collective that a training step uses.

Whoever sends marks each element with its rank, the receiver's rank and the position, in whole
numbers that are exact in every dtype; a swapped, missing or stale piece changes them, and every
element is compared. Tried are all-gather, reduce-scatter, minimum and maximum, broadcast from the
last rank, all-to-all with even and uneven pieces (also empty ones, as experts get them) and with
lists, a ring of sends and receives, also one by one, and a barrier, which must not end before its
last rank has come. Pieces of float32 are also larger than all of HCCL's buffer together, and what
training overlaps is also tried at once, waited for in another order. Four more are int64 beyond 32
bits, slices and views, NaN, which nothing may turn into a number, and bfloat16 sums that have to be
rounded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import _probe
from _probe import Probe
from allreduce import BUFFER, EXACT, MIB, weights

MANIFEST = {
    "order": 210,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["allreduce"],
    "torchrun": True,
    "does": (
        "all-gather, reduce-scatter, minimum and maximum, broadcast, all-to-all even, uneven, "
        "empty and of lists, a ring of sends and receives, together and one by one; float32 also "
        "above HCCL's buffer; three at once, waited for in another order; int64 beyond 32 bits, "
        "slices and views, NaN, rounded bfloat16 sums; a barrier"
    ),
    "on_cpu": "over gloo, up to 2 MiB, without lists; on the simulated NPU up to 2 MiB, too",
}

# Experts get int64 indices and bfloat16 tokens; float32 are gradients.
DTYPES = ("float32", "bfloat16", "int64")
# One element, and a prime number of them, which no ranks share evenly.
LENGTHS = (1, 5003)
# Of float32; on the CPU and on a simulated NPU as large as gradients are in buckets.
LARGE = 1 << 19
# Prime, so that neighbours, ranks and positions differ; all are exact in bfloat16.
MODULUS = 251
# No piece has it: marks go from 1 to 251.
STALE = 255
# All sums need more bits than float64 has.
WIDE = (1 << 61) + 1
# Addends of two ranks whose sums bfloat16 has not; these rounded to the nearest, and cut off.
ADDENDS = (256.0, -256.0, 512.0), (1.5, -1.5, 6.0)
NEAREST, CUT = [258.0, -258.0, 520.0], [256.0, -256.0, 516.0]
# Long beside a barrier, which takes microseconds.
LATE_SECONDS = 0.2


class Ranks:
    """One rank among all: what it sends, and what it should get."""

    def __init__(self, probe: Probe, torch: Any, dist: Any) -> None:
        self.probe, self.torch, self.dist = probe, torch, dist
        self.rank, self.size = probe.rank, probe.world_size

    def piece(self, kind: Any, length: int, source: int, to: int = 0) -> Any:
        """What the rank ``source`` has for the rank ``to``, on the CPU."""
        marks = self.torch.arange(length) * 3 + source * 31 + to * 7
        return (marks % MODULUS + 1).to(kind)

    def addend(self, kind: Any, length: int, source: int, to: int) -> Any:
        """What the rank ``source`` adds to the piece of the rank ``to``; all sums are exact."""
        values, period = weights(self.size, EXACT[str(kind).removeprefix("torch.")])
        marks = self.torch.arange(length) * 3 + to * 5
        return ((marks % period + 1) * values[source]).to(kind)

    def mine(self, kind: Any, length: int, to: int = 0) -> Any:
        """What this rank sends, on the device."""
        return self.there(self.piece(kind, length, self.rank, to))

    def there(self, piece: Any) -> Any:
        if self.probe.tampers(self.probe.stage_name) and len(piece):
            piece[-1] = STALE
        return piece.to(self.probe.torch_device())

    def empty(self, kind: Any, length: int) -> Any:
        """Memory to receive in; what is not overwritten shows."""
        return self.torch.full((length,), STALE, dtype=kind, device=self.probe.torch_device())

    def lengths(self, dtype: str) -> tuple[int, ...]:
        """How many elements a piece has."""
        if dtype != "float32":
            return LENGTHS
        large = LARGE // self.size
        if self.probe.strength != "cpu":
            large = (int(os.environ.get("HCCL_BUFFSIZE") or BUFFER) + 1) * MIB // 4 // self.size
        return (*LENGTHS, large + 3)

    def compare(self, what: str, got: Any, pieces: Iterable[Any]) -> None:
        expected = self.torch.cat(list(pieces))
        received = got.reshape(-1).cpu()
        differs = (received != expected).nonzero().flatten()
        position = int(differs[0]) if len(differs) else 0
        name = str(expected.dtype).removeprefix("torch.")
        self.probe.expect(
            f"{what} of {len(expected)} {name}, element {position} ({len(differs)} differ)",
            received[position].item() if len(received) else None,
            expected[position].item() if len(expected) else None,
        )


def body(probe: Probe) -> None:
    """Every collective of a training step, by value."""
    torch = probe.torch()
    dist = probe.join()
    ranks = Ranks(probe, torch, dist)
    absent = _probe.lacking(probe.device)
    probe.measure("left_out", sorted(absent & set(DTYPES)))
    for dtype in (name for name in DTYPES if name not in absent):
        kind = getattr(torch, dtype)
        for name, run in COLLECTIVES.items():
            with probe.stage(f"{name} {dtype}"):
                for length in ranks.lengths(dtype):
                    run(ranks, kind, length)
                probe.synchronise(torch)
    with probe.stage("at once"):
        at_once(ranks)
    for name, run in EDGES.items():
        with probe.stage(name):
            run(ranks)
            probe.synchronise(torch)
    with probe.stage("barrier"):
        barrier(ranks)


def all_gather(ranks: Ranks, kind: Any, length: int) -> None:
    got = ranks.empty(kind, length * ranks.size)
    ranks.dist.all_gather_into_tensor(got, ranks.mine(kind, length))
    expected = [ranks.piece(kind, length, rank) for rank in range(ranks.size)]
    ranks.compare("all-gather", got, expected)
    several = [ranks.empty(kind, length) for _ in range(ranks.size)]
    ranks.dist.all_gather(several, ranks.mine(kind, length))
    ranks.compare("all-gather into a list", ranks.torch.cat(several), expected)


def reduce_scatter(ranks: Ranks, kind: Any, length: int) -> None:
    """Sums, of which each rank gets one piece."""
    everyone = range(ranks.size)
    sent = [ranks.there(ranks.addend(kind, length, ranks.rank, to)) for to in everyone]
    got = ranks.empty(kind, length)
    ranks.dist.reduce_scatter_tensor(got, ranks.torch.cat(sent))
    addends = [ranks.addend(kind, length, source, ranks.rank) for source in everyone]
    ranks.compare("reduce-scatter", got, [sum(addends[1:], addends[0])])


def extremes(ranks: Ranks, kind: Any, length: int) -> None:
    pieces = [ranks.piece(kind, length, rank) for rank in range(ranks.size)]
    for name, index in (("MIN", 0), ("MAX", -1)):
        tensor = ranks.mine(kind, length)
        ranks.dist.all_reduce(tensor, op=getattr(ranks.dist.ReduceOp, name))
        ranks.compare(f"all-reduce {name}", tensor, [ranks.torch.stack(pieces).sort(0)[0][index]])


def broadcast(ranks: Ranks, kind: Any, length: int) -> None:
    source = ranks.size - 1
    tensor = ranks.mine(kind, length) if ranks.rank == source else ranks.empty(kind, length)
    ranks.dist.broadcast(tensor, src=source)
    ranks.compare(f"broadcast from rank {source}", tensor, [ranks.piece(kind, length, source)])


def all_to_all(ranks: Ranks, kind: Any, length: int) -> None:
    sent = ranks.torch.cat([ranks.mine(kind, length, to) for to in range(ranks.size)])
    got = ranks.empty(kind, len(sent))
    ranks.dist.all_to_all_single(got, sent)
    pieces = [ranks.piece(kind, length, rank, ranks.rank) for rank in range(ranks.size)]
    ranks.compare("all-to-all", got, pieces)


def uneven(ranks: Ranks, kind: Any, length: int) -> None:
    """Pieces of no, single and double length."""

    def share(source: int, to: int) -> int:
        return (source + 2 * to) % 3 * length

    give = [share(ranks.rank, to) for to in range(ranks.size)]
    take = [share(source, ranks.rank) for source in range(ranks.size)]
    sent = ranks.torch.cat([ranks.mine(kind, count, to) for to, count in enumerate(give)])
    got = ranks.empty(kind, sum(take))
    ranks.dist.all_to_all_single(got, sent, output_split_sizes=take, input_split_sizes=give)
    pieces = [ranks.piece(kind, count, source, ranks.rank) for source, count in enumerate(take)]
    ranks.compare("uneven all-to-all", got, pieces)


def ring(ranks: Ranks, kind: Any, length: int) -> None:
    """To the next rank, from the one before, as pipelines and ring attention do."""
    if ranks.size == 1:
        return
    after, before = (ranks.rank + 1) % ranks.size, (ranks.rank - 1) % ranks.size
    got = ranks.empty(kind, length)
    both = [
        ranks.dist.P2POp(ranks.dist.isend, ranks.mine(kind, length, after), after),
        ranks.dist.P2POp(ranks.dist.irecv, got, before),
    ]
    for work in ranks.dist.batch_isend_irecv(both):
        work.wait()
    ranks.compare("ring of sends", got, [ranks.piece(kind, length, before, ranks.rank)])


def one_by_one(ranks: Ranks, kind: Any, length: int) -> None:
    """The same with calls that block; the last rank receives first, or all would wait."""
    if ranks.size == 1:
        return
    after, before = (ranks.rank + 1) % ranks.size, (ranks.rank - 1) % ranks.size
    sent, got = ranks.mine(kind, length, after), ranks.empty(kind, length)
    if ranks.rank < ranks.size - 1:
        ranks.dist.send(sent, after)
        ranks.dist.recv(got, before)
    else:
        ranks.dist.recv(got, before)
        ranks.dist.send(sent, after)
    ranks.compare("send and receive", got, [ranks.piece(kind, length, before, ranks.rank)])


def lists(ranks: Ranks, kind: Any, length: int) -> None:
    """All-to-all of lists of tensors. gloo has none (torch 2.13)."""
    if ranks.probe.device == "cpu":
        return
    everyone = range(ranks.size)
    got = [ranks.empty(kind, length) for _ in everyone]
    ranks.dist.all_to_all(got, [ranks.mine(kind, length, to) for to in everyone])
    addends = [ranks.piece(kind, length, source, ranks.rank) for source in everyone]
    ranks.compare("all-to-all of lists", ranks.torch.cat(got), addends)


def at_once(ranks: Ranks) -> None:
    """A gather, a scatter and a broadcast that run together, waited for in another order."""
    kind, length = ranks.torch.float32, LARGE // ranks.size + 3
    everyone, dist = range(ranks.size), ranks.dist
    gathered = ranks.empty(kind, length * ranks.size)
    scattered, spread = ranks.empty(kind, length), ranks.mine(kind, length)
    sent = [ranks.there(ranks.addend(kind, length, ranks.rank, to)) for to in everyone]
    works = [
        dist.all_gather_into_tensor(gathered, ranks.mine(kind, length), async_op=True),
        dist.reduce_scatter_tensor(scattered, ranks.torch.cat(sent), async_op=True),
        dist.broadcast(spread, src=0, async_op=True),
    ]
    for work in reversed(works):
        work.wait()
    ranks.probe.synchronise(ranks.torch)
    added = [ranks.addend(kind, length, source, ranks.rank) for source in everyone]
    ranks.compare("all-gather at once", gathered, [ranks.piece(kind, length, i) for i in everyone])
    ranks.compare("reduce-scatter at once", scattered, [sum(added[1:], added[0])])
    ranks.compare("broadcast at once", spread, [ranks.piece(kind, length, 0)])


def wide(ranks: Ranks) -> None:
    pieces = [
        ranks.torch.arange(9) * ((1 << 33) + 1) + WIDE // ranks.size + rank
        for rank in range(ranks.size)
    ]
    tensor = ranks.there(pieces[ranks.rank].clone())
    ranks.dist.all_reduce(tensor)
    ranks.compare("sum beyond 32 bits", tensor, [sum(pieces[1:], pieces[0])])
    got = ranks.empty(ranks.torch.int64, 9 * ranks.size)
    ranks.dist.all_gather_into_tensor(got, ranks.there(pieces[ranks.rank].clone()))
    ranks.compare("all-gather beyond 32 bits", got, pieces)


def views(ranks: Ranks) -> None:
    """A slice is received at its place; a view with gaps is refused, or right.

    torch_npu 2.13 refuses it: "Tensors must be contiguous". gloo of torch 2.13 fills its gaps.
    """
    kind, source = ranks.torch.float32, ranks.size - 1
    whole = ranks.empty(kind, 24)
    whole[7:12] = ranks.mine(kind, 5)
    ranks.dist.broadcast(whole[7:12], src=source)
    untouched = ranks.torch.full((24,), STALE, dtype=kind)
    untouched[7:12] = ranks.piece(kind, 5, source)
    ranks.compare("broadcast into a slice", whole, [untouched])
    shapes = {"transposed": lambda square: square.t(), "with gaps": lambda square: square[::2, 1]}
    if ranks.probe.device == "cpu":
        del shapes["with gaps"]
    for name, shape in shapes.items():
        view = shape(ranks.mine(kind, 24).reshape(6, 4))
        expected = shape(ranks.piece(kind, 24, source).reshape(6, 4))
        try:
            ranks.dist.broadcast(view, src=source)
        except RuntimeError as error:
            ranks.probe.measure(f"refused {name}", str(error)[:200])
        else:
            ranks.compare(f"broadcast of a view, {name}", view, [expected.reshape(-1)])


def not_finite(ranks: Ranks) -> None:
    """Each rank has its NaN elsewhere."""
    for kind in (ranks.torch.float32, ranks.torch.bfloat16):
        pieces = [ranks.piece(kind, ranks.size + 1, rank) for rank in range(ranks.size)]
        for rank, piece in enumerate(pieces):
            piece[rank] = float("nan")
        everyone = ranks.torch.cat(pieces)
        got = ranks.empty(kind, len(everyone))
        ranks.dist.all_gather_into_tensor(got, ranks.there(pieces[ranks.rank].clone()))
        # NaN differs from itself; no piece has a -1.
        ranks.compare("all-gather with NaN", got.nan_to_num(-1), [everyone.nan_to_num(-1)])
        tensor = ranks.there(pieces[ranks.rank].clone())
        ranks.dist.all_reduce(tensor)
        summed = ranks.torch.stack(pieces).isnan().any(0)
        ranks.compare("places of NaN in the sum", tensor.isnan(), [summed])


def rounded(ranks: Ranks) -> None:
    """No document says how HCCL rounds, so cutting off is measured."""
    kind = ranks.torch.bfloat16
    if ranks.size == 1 or "bfloat16" in _probe.lacking(ranks.probe.device):
        return
    own = {0: ADDENDS[0], ranks.size - 1: ADDENDS[1]}.get(ranks.rank, (0.0,) * 3)
    tensor = ranks.there(ranks.torch.tensor(own, dtype=kind))
    ranks.dist.all_reduce(tensor)
    is_cut = tensor.tolist() == CUT
    ranks.probe.measure("rounding", "toward zero" if is_cut else "to the nearest")
    if not is_cut:
        ranks.compare("rounded sum", tensor, [ranks.torch.tensor(NEAREST, dtype=kind)])


def barrier(ranks: Ranks) -> None:
    """Nobody leaves before the last rank, which is late, has come."""
    store = ranks.dist.distributed_c10d._get_default_store()  # noqa: SLF001 - torch has no other
    last = ranks.size - 1
    if ranks.rank == last:
        time.sleep(LATE_SECONDS)
        store.set("collectives/late", "came")
    start = time.monotonic()
    ranks.dist.barrier()
    ranks.probe.synchronise(ranks.torch)
    ranks.probe.measure("barrier_s", time.monotonic() - start)
    came = "came" if store.check(["collectives/late"]) else "had not come"
    ranks.probe.expect(f"rank {last} when the barrier ended", came, "came")


COLLECTIVES = {
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "extremes": extremes,
    "broadcast": broadcast,
    "all-to-all": all_to_all,
    "uneven": uneven,
    "ring": ring,
    "one by one": one_by_one,
    "lists": lists,
}
EDGES = {"beyond 32 bits": wide, "views": views, "NaN": not_finite, "rounding": rounded}


if __name__ == "__main__":
    _probe.main(body, name="collectives")
