from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from ascend_doctor.probe_results import ProbeRun
from tests.probes.judged import judge_probes
from tests.probes.started import start_probe


def judge_run(run: ProbeRun) -> list[tuple[Level, str]]:
    findings = judge_probes(run, check=run.probe)
    return [(finding.level, f"{finding.title} {finding.observed}") for finding in findings]


# By probe: the sound run, then what it must find, by what a mutation takes away.
PROBES: dict[str, dict[str, tuple[str, str]]] = {
    "vocab-parallel-logprob": {
        "sound": ("", ""),
        "the maximum is that of one rank": (
            (
                "import torch.distributed as dist\n"
                "original = dist.all_reduce\n"
                "def forgetful(tensor, *rest, **options):\n"
                "    if options.get('op') == dist.ReduceOp.MAX and tensor.dim() == 3:\n"
                "        return\n"
                "    original(tensor, *rest, **options)\n"
                "dist.all_reduce = forgetful"
            ),
            "are wrong",
        ),
        "writes in place go unnoticed": (
            (
                "import torch\n"
                "def unnoticed(change, into):\n"
                "    def changed(tensor, *rest, **options):\n"
                "        if tensor.dim() == 3 and tensor.shape[1] == 3:\n"
                "            return into(tensor.data)\n"
                "        return change(tensor, *rest, **options)\n"
                "    return changed\n"
                "double = lambda data: data.mul_(2.0)\n"
                "torch.Tensor.sub_ = unnoticed(torch.Tensor.sub_, double)\n"
                "torch.Tensor.add_ = unnoticed(torch.Tensor.add_, lambda data: data)"
            ),
            "autograd does not notice that the entropy backward writes in place",
        ),
    },
    "sequence-gather": {
        "sound": ("", ""),
        "pieces of the ranks in another order": (
            (
                "import torch.distributed as dist\n"
                "for name in ('all_gather_into_tensor', '_all_gather_base'):\n"
                "    def backwards(output, part, *rest, gather=getattr(dist, name), **options):\n"
                "        gather(output, part, *rest, **options)\n"
                "        output.copy_(output.flip(0))\n"
                "    setattr(dist, name, backwards)"
            ),
            "wrong values on ranks 0, 1",
        ),
    },
    "weight-sync": {
        "sound": ("", ""),
        "a broadcast that sends nothing": (
            (
                "import torch.distributed as dist\n"
                "class Mute(dist.ProcessGroupGloo):\n"
                "    def broadcast(self, tensor, root):\n"
                "        return self.allreduce(tensor.new_zeros(1))\n"
                "dist.ProcessGroupGloo = Mute"
            ),
            "wrong values on rank 1 rank 1: bfloat16 weights that differ the first time",
        ),
        "weights are those of the time before": (
            (
                "import torch.distributed as dist\n"
                "class Stale(dist.ProcessGroupGloo):\n"
                "    seen = {}\n"
                "    def broadcast(self, tensor, root):\n"
                "        old = self.seen.setdefault((id(self), tensor.dtype), tensor.clone())\n"
                "        work = super().broadcast(old if self.rank() == root else tensor, root)\n"
                "        return work\n"
                "dist.ProcessGroupGloo = Stale"
            ),
            "wrong values on rank 1 rank 1: bfloat16 weights that differ the second time",
        ),
    },
    "attention-mask-rebuild": {
        "sound": ("", ""),
        "lengths are included": (
            ("import torch\ntorch.Tensor.__lt__ = lambda one, other: torch.le(one, other)"),
            "mask of lengths",
        ),
    },
    "fp8": {
        "sound": ("", ""),
        "a scale is ignored": (
            (
                "import torch\n"
                "scaled = torch._scaled_mm\n"
                "def forgetful(*factors, scale_a, **options):\n"
                "    return scaled(*factors, scale_a=torch.ones(()), **options)\n"
                "torch._scaled_mm = forgetful"
            ),
            "float8_e4m3fn: elements that differ of 1536",
        ),
    },
}


@pytest.mark.parametrize(
    ("probe", "name"), [(probe, name) for probe, cases in PROBES.items() for name in cases]
)
def test_it_finds_what_is_wrong(
    forked_megatron: Path, tmp_path: Path, probe: str, name: str
) -> None:
    mutation, expected = PROBES[probe][name]
    run = start_probe(forked_megatron, probe, ranks=2, mutation=mutation, folder=tmp_path)
    rows = judge_run(run)
    if not mutation:
        assert [level for level, _ in rows] == [Level.OK]
        return
    assert [text for level, text in rows if level is Level.ERROR and expected in text]


@pytest.mark.parametrize(
    ("probe", "rank", "stage"),
    [
        ("vocab-parallel-logprob", 1, "log-probability in chunks of 2"),
        ("sequence-gather", 1, "gather over TP2"),
        ("weight-sync", 1, "settings"),
        ("weight-sync", 0, "send, actor first"),
    ],
)
def test_one_rank_differs(forked_megatron: Path, probe: str, rank: int, stage: str) -> None:
    run = start_probe(forked_megatron, probe, ranks=2, fault=f"rank={rank},stage={stage},do=value")
    assert {level for level, _ in judge_run(run)} == {Level.ERROR}


def test_weights_need_somebody_to_send_them_to(forked_megatron: Path) -> None:
    run = start_probe(forked_megatron, "weight-sync")
    assert run.ranks[0].skipped == "weights are sent from one rank to another, and there is one"
