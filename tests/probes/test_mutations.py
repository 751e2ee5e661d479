"""What each probe claims, taken away: under gloo, and on the simulated NPU under torch_npu."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.probing.schedule import Extent, plan
from ascend_doctor.simulator import build
from tests.knobs import draw
from tests.probes.judged import judge_probes
from tests.probes.mutated import Mutation, mutate
from tests.probes.started import launch

BUFFER = "distributed/param_and_grad_buffer.py"
SCALE = "bucket.grad_data *= bucket.gradient_scaling_factor"
BOTH = ("cpu", "npu")


class Row(NamedTuple):
    """Each of ``texts`` is in one title and what was found. ``code`` runs before the probe's.

    An ordinary run has the ``quick`` rows, on the CPU.
    """

    probe: str
    check: str
    texts: str | tuple[str, ...]
    code: str = ""
    core: Mutation | None = None
    devices: tuple[str, ...] = BOTH
    ranks: int = 2
    quick: bool = False


STALE = """
import os, torch
if {device}:
    import torch_npu._C._distributed_c10d as owner
    name = "ProcessGroupHCCL"
else:
    import torch.distributed as owner
    name = "ProcessGroupGloo"
whole = getattr(owner, name)

class Stale(whole):
    seen = {}
    def broadcast(self, tensor, root):
        old = self.seen.setdefault((id(self), tensor.dtype), tensor.clone())
        return super().broadcast(old if self.rank() == root else tensor, root)

setattr(owner, name, Stale)
"""
SUMS = """
import os, torch, torch.distributed as dist
call = dist.all_reduce

def broken(tensor, *rest, **options):
    if os.environ["RANK"] == "1" and tensor.dtype is torch.float32 and tensor.numel() > 1:
        tensor[-1] += 1
    return call(tensor, *rest, **options)

dist.all_reduce = broken
"""
# What a device computes in bfloat16 is one call away from torch's or torch_npu's function.
MASK = """
import torch
if {device}:
    import torch_npu as owner
    name, mask = "npu_fusion_attention", "atten_mask"
else:
    owner, name, mask = torch.nn.functional, "scaled_dot_product_attention", "attn_mask"
call = getattr(owner, name)

def blind(*given, **options):
    options.pop(mask)
    return call(*given, **options)

setattr(owner, name, blind)
"""
NEIGHBOURS = """
import torch
if {device}:
    import torch_npu
    call = torch_npu.npu_grouped_matmul

    def swapped(left, right, **options):
        if options["group_type"] == 0:
            right = [one.flip(0) for one in right]
        return call(left, right, **options)

    torch_npu.npu_grouped_matmul = swapped
else:
    call = torch.nn.functional.grouped_mm
    torch.nn.functional.grouped_mm = lambda rows, all, offs: call(rows, all.flip(0), offs=offs)
"""
TENSOR, CONTEXT = "bfloat16 TP2 EP2 ETP1", "bfloat16 EP2 CP2 ETP1"
DDP = "distributed/distributed_data_parallel.py"
STATE = "inner_state_dict = self.optimizer.state_dict()\n        state_dict = {}\n"
FAILS_ON_RANK_0 = """
        whole = self.data_parallel_group.size() == 4
        assert not whole or self.data_parallel_group.rank(), "steps"
"""
ROWS = {
    "wrong sums": Row(
        "allreduce", "allreduce", "wrong values on ranks 0, 1", code=SUMS, quick=True
    ),
    "a swapped expert group": Row(
        "parallel-groups",
        "parallel-groups",
        "members of the ep group of rank 0",
        core=Mutation("parallel_state.py", (("get_ranks('ep')", "get_ranks('dp')"),)),
        ranks=4,
    ),
    "LoRA gradients are zero": Row(
        "smoke-train",
        "smoke-train",
        "all gradients are zero",
        core=Mutation(
            BUFFER,
            (
                ("if bucket.gradient_scaling_factor != 1.0:", "if True:"),
                (SCALE, "bucket.grad_data *= 0"),
            ),
        ),
    ),
    "optimizer state is dropped from a checkpoint": Row(
        "smoke-train",
        "checkpoint",
        "the first moments of Adam off by",
        core=Mutation(
            "optimizer/distrib_optimizer.py",
            (("for key in dst_tensors:", 'for key in ("param",):'),),
        ),
    ),
    "the optimizer of one rank alone cannot be saved": Row(
        "smoke-train",
        "checkpoint",
        ("cannot be saved under no parallelism but DP", "AssertionError: steps"),
        core=Mutation("optimizer/distrib_optimizer.py", ((STATE, STATE + FAILS_ON_RANK_0),)),
        ranks=4,
    ),
    "a mask is ignored": Row(
        "smoke-train",
        "smoke-train",
        "it is the loss of a model without the causal mask",
        core=Mutation(
            "transformer/utils.py",
            (("attention_scores.masked_fill_(attention_mask, -10000.0)", "pass"),),
        ),
    ),
    "one rank on another device": Row(
        "device-per-rank",
        "device-per-rank",
        "ranks 0, 1 drive one device",
        code="import torch, torch_npu\nchosen = torch.npu.set_device\n"
        "torch.npu.set_device = lambda _: chosen(0)\n",
        devices=("npu",),
    ),
    "stale weights after sync": Row(
        "weight-sync", "weight-sync", "weights that differ the second time", code=STALE, quick=True
    ),
    "flash attention without its mask": Row(
        "smoke-train",
        "smoke-train",
        (TENSOR, "core_attention", "it gives what it does in a model without the causal mask"),
        code=MASK,
    ),
    "grouped products of swapped experts": Row(
        "smoke-train",
        "smoke-train",
        (TENSOR, "mlp", "it does in a model whose experts get the tokens of their neighbours"),
        code=NEIGHBOURS,
        quick=True,
    ),
    "gradients of micro-batches are not added up": Row(
        "smoke-train",
        "smoke-train",
        (CONTEXT, "those of the last micro-batch alone"),
        core=Mutation(
            DDP, (("main_grad.add_(param.grad.data)", "main_grad.copy_(param.grad.data)"),)
        ),
    ),
    "gradients are added up in bfloat16": Row(
        "smoke-train",
        "smoke-train",
        (TENSOR, "gradients are added up and reduced in bfloat16"),
        core=Mutation(
            DDP,
            (
                (
                    "torch.float if self.ddp_config.grad_reduce_in_fp32 else param.dtype",
                    "param.dtype",
                ),
            ),
        ),
    ),
    "context parallel ranks take other positions than tokens": Row(
        "smoke-train",
        "smoke-train",
        (CONTEXT, "the first to part is decoder.layers.0.self_attention.core_attention, query"),
        core=Mutation(
            "models/common/embeddings/rope_utils.py",
            (("[cp_rank, (2 * cp_size - cp_rank - 1)]", "[2 * cp_rank, 2 * cp_rank + 1]"),),
        ),
    ),
    "context parallel gradients are not reduced": Row(
        "smoke-train",
        "smoke-train",
        (CONTEXT, "gradients are wrong"),
        core=Mutation(BUFFER, (("dist_reduce_scatter_func(\n", "(lambda *_, **__: None)(\n"),)),
    ),
}
RUNS = draw(
    [(name, device) for name, row in ROWS.items() for device in row.devices],
    [(name, "cpu") for name, row in ROWS.items() if row.quick],
    5,
)


@pytest.fixture(scope="module")
def environments(
    forked_megatron: Path, examined_python: Path, simulator_cache: Path
) -> dict[str, tuple[Path, dict[str, str]]]:
    """Interpreters and environments without NPUs, and with four simulated ones.

    A fork has imported torch_npu before the simulated libraries are in its path.
    """
    base = {**os.environ, "PYTHONWARNINGS": "ignore"}
    base.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    if "npu" not in {device for _, device in RUNS}:
        return {"cpu": (forked_megatron, base)}
    tree = build(examined_python, cache=simulator_cache, kernels="ascend910b")
    whole = tree.environment(base, soc="Ascend910B3", devices=4, memory_bytes=1 << 30)
    return {"cpu": (forked_megatron, base), "npu": (examined_python, whole)}


def errors_of(
    python: Path, row: Row, device: str, env: dict[str, str], folder: Path, core: Path
) -> list[Finding]:
    if row.core:
        mutate(core, folder, row.core)
    (folder / "sitecustomize.py").write_text(
        row.code.replace("{device}", str(device == "npu")), "utf-8"
    )
    # The simulator's sitecustomize runs the one behind it.
    path = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(folder)]))
    env = {**env, "PYTHONPATH": path}
    if device == "cpu":
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    extent = Extent(small=True)
    several = plan(4, device=device, nproc=row.ranks, python=str(python), env=env, extent=extent)
    run = launch(next(request for request in several if request.probe == row.probe))
    run = msgspec.structs.replace(run, simulated=device == "npu")
    findings = judge_probes(run, check=row.check, device=device)
    return [finding for finding in findings if finding.level is Level.ERROR]


@pytest.mark.parametrize(("name", "device"), RUNS)
def test_the_probe_that_claims_it_catches_it(
    name: str,
    device: str,
    core: Path,
    environments: dict[str, tuple[Path, dict[str, str]]],
    tmp_path: Path,
) -> None:
    row = ROWS[name]
    python, env = environments[device]
    errors = errors_of(python, row, device, env, tmp_path, core)
    texts = (row.texts,) if isinstance(row.texts, str) else row.texts
    assert [
        finding
        for finding in errors
        if all(text in f"{finding.title} {finding.observed}" for text in texts)
    ], errors
