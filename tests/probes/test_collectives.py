from pathlib import Path

import pytest

from tests.probes.judged import judge_probes
from tests.probes.started import start_probe

# Each is wrong for int64 only: the record then cuts no text off.
MUTATION = """
import torch, torch.distributed as dist

def mutated(name, wrong):
    call = getattr(dist, name)
    def run(first, *rest, **options):
        marked = first[0].tensor if isinstance(first[0], dist.P2POp) else first
        whole = isinstance(marked, torch.Tensor) and marked.dtype is torch.int64
        return (wrong if whole and len(marked) % 9 else call)(first, *rest, **options)
    def wrong(*arguments, call=call, change=wrong, **options):
        return change(call, *arguments, **options)
    setattr(dist, name, run)

def turned(call, got, *rest, **options):
    call(got, *rest, **options)
    got.copy_(got.flip(0))

def other_way(call, operations):
    for one in operations:
        one.peer = one.group_peer = (one.peer + (1 if one.op is dist.isend else 2)) % 3
    return call(operations)

mutated("all_gather_into_tensor", turned)
mutated("all_to_all_single", turned)
mutated("reduce_scatter_tensor", lambda call, *both: call(*both, op=dist.ReduceOp.MAX))
mutated("all_reduce", lambda call, tensor, op: call(tensor, op=dist.ReduceOp.MIN))
mutated("broadcast", lambda call, tensor, src: call(tensor, src=0))
mutated("batch_isend_irecv", other_way)
mutated("recv", lambda call, tensor, src: (call(tensor, src), tensor.zero_()))
dist.barrier = lambda: None
"""


def test_every_collective_on_the_cpu(forked_python: Path) -> None:
    run = start_probe(forked_python, "collectives", ranks=3)
    for rank in run.ranks:
        # 10 results in 3 dtypes and 2 lengths, in float32 3, 3 at once, 9 at edges, the barrier.
        assert (rank.ok, rank.wrong, rank.compared) == (True, (), 83)


def test_every_broken_collective_is_found(forked_python: Path, tmp_path: Path) -> None:
    run = start_probe(forked_python, "collectives", ranks=3, mutation=MUTATION, folder=tmp_path)
    kinds = {wrong.what.partition(" of ")[0] for rank in run.ranks for wrong in rank.wrong}
    assert kinds == {
        "all-gather",
        "all-reduce MAX",
        "all-to-all",
        "broadcast from rank 2",
        "rank 2 when the barrier ended",
        "reduce-scatter",
        "ring",
        "send and receive",
        "uneven all-to-all",
    }


# Values that training steps seldom have, broken on the way.
EDGES = """
import torch, torch.distributed as dist
sum_up, spread = dist.all_reduce, dist.broadcast

def broken_sum(tensor, *rest, **options):
    done = sum_up(tensor, *rest, **options)
    if tensor.dtype is torch.int64:
        tensor.copy_(tensor.int().long())
    if tensor.is_floating_point():
        tensor.nan_to_num_(0)
    if tensor.dtype is torch.bfloat16 and len(tensor) == 3:
        tensor.copy_(torch.tensor([256.0, -256.0, 516.0]))
    return done

def flat(tensor, src, **options):
    whole = tensor.contiguous()
    done = spread(whole, src=src, **options)
    tensor.as_strided((tensor.numel(),), (1,)).copy_(whole.reshape(-1))
    return done

dist.all_reduce, dist.broadcast = broken_sum, flat
"""


def test_broken_edges_are_found(forked_python: Path, tmp_path: Path) -> None:
    run = start_probe(forked_python, "collectives", ranks=3, mutation=EDGES, folder=tmp_path)
    wrong = {wrong.what.partition(", element")[0] for rank in run.ranks for wrong in rank.wrong}
    assert wrong == {
        "broadcast of a view, transposed of 24 float32",
        "places of NaN in the sum of 4 bool",
        "sum beyond 32 bits of 9 int64",
    }
    assert {rank.values["rounding"] for rank in run.ranks} == {"toward zero"}
    findings = judge_probes(run, check="collectives", device="npu")
    assert findings[-1].title == "collectives: sums of bfloat16 are cut off, not rounded"


# What small, blocking calls miss.
LARGE = """
import torch, torch.distributed as dist
call = dist.all_reduce

def broken(tensor, *rest, async_op=False, **options):
    size = tensor.numel() * tensor.element_size()
    done = call(tensor, *rest, async_op=async_op, **options)
    if {condition}:
        if async_op:
            done.wait()
        tensor[tensor.numel() // 2] += 1
    return done

dist.all_reduce = broken
"""


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ("3 << 20 < size < 5 << 20", "sum of 1048579 float32, element 524289 (1 differ)"),
        ("tensor.dtype is torch.int32 and size > 16", "sum of 256 int32, element 128 (1 differ)"),
        ("async_op", "sum 4 of 4 at once, element 131073 (1 differ)"),
    ],
)
def test_sums_that_are_wrong_by_size_or_at_once(
    forked_python: Path, tmp_path: Path, condition: str, what: str
) -> None:
    mutation = LARGE.format(condition=condition)
    run = start_probe(forked_python, "allreduce", ranks=2, mutation=mutation, folder=tmp_path)
    assert run.ranks[0].wrong[0].what == what


def test_a_wrong_value_shows_in_bandwidth_too(forked_python: Path) -> None:
    run = start_probe(forked_python, "bandwidth", ranks=2, fault="rank=1,stage=all-gather,do=value")
    assert {wrong.what.partition(" of 1")[0] for wrong in run.ranks[0].wrong} >= {
        "elements of all-gather"
    }
    assert all(" all-gather " in wrong.what for wrong in run.ranks[0].wrong)


def test_a_spoilt_value_is_seen_by_its_receiver(forked_python: Path) -> None:
    fault = "rank=1,stage=ring int64,do=value"
    run = start_probe(forked_python, "collectives", ranks=3, fault=fault)
    assert [len(rank.wrong) for rank in run.ranks] == [0, 0, 2]
