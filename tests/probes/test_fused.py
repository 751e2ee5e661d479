import json
from pathlib import Path

import pytest

from tests.probes.started import start_probe
from tests.programs import on_cpu, run_program

PROBES = Path(__file__).parent.parent.parent / "probes"

# torch_npu's operators as defined, and mutations of them.
SUBJECTS = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
import torch, fused_ops, flash_attention as flash

npu = types.SimpleNamespace()
sys.modules["torch_npu"] = npu

def norm(x, gain, epsilon):
    return (x.float() * (x.float().pow(2).mean(-1, keepdim=True) + epsilon).rsqrt()
            * gain.float()).to(x.dtype)

npu.npu_rms_norm = lambda x, gain, epsilon: (norm(x, gain, epsilon), None)
npu.npu_add_rms_norm = lambda a, b, gain, e: (norm(a + b, gain, e), None, a + b)

def rotary(x, cosine, sine):
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat([-right, left], -1) * sine

npu.npu_rotary_mul = rotary
npu.npu_swiglu = lambda x, dim: torch.nn.functional.silu(x.chunk(2, dim)[0]) * x.chunk(2, dim)[1]

def grouped(x, weight, group_list, shift=0, **_):
    ends = group_list.tolist()
    starts = [0, *ends[:-1]]
    several = zip(starts, ends, weight[0].roll(shift, 0), strict=True)
    return [torch.cat([x[0][a:b] @ one for a, b, one in several])]

npu.npu_grouped_matmul = grouped

def permute(tokens, chosen):
    order = torch.argsort(chosen.flatten(), stable=True)
    return tokens[order // chosen.shape[1]], order

def unpermute(sent, order, probs):
    back = torch.empty_like(sent).index_copy(0, order, sent)
    return (back.unflatten(0, probs.shape) * probs[..., None]).sum(1)

npu.npu_moe_token_permute, npu.npu_moe_token_unpermute = permute, unpermute

def fusion(q, k, v, heads, layout, atten_mask=None, scale=1, keep_prob=1, sparse_mode=0,
           actual_seq_qlen=None, **_):
    if actual_seq_qlen and forgets != "packing":
        whole = torch.ones(len(q), len(q), dtype=torch.bool)
        for start, end in zip([0, *actual_seq_qlen], actual_seq_qlen):
            whole[start:end, start:end] = torch.ones(end - start, end - start).triu(1).bool()
        atten_mask = whole
    elif sparse_mode:
        length = q.shape[0]
        atten_mask = torch.ones(length, length, dtype=torch.bool).triu(1)
    if forgets == "padding" and atten_mask is not None and atten_mask.dim() == 4:
        atten_mask = flash.causal(torch)
    if forgets == "scale":
        scale = 1
    groups = heads // 2
    def split(one, count):
        if layout == "SBH":
            return one.unflatten(2, (count, -1)).permute(1, 2, 0, 3)
        return {"BNSD": one, "BSND": one.transpose(1, 2), "TND": one.transpose(0, 1)[None]
                if layout == "TND" else one}[layout]
    q, k, v = split(q, heads), split(k, groups), split(v, groups)
    k, v = (one.repeat_interleave(2, 1) for one in (k, v))
    scores = q.float() @ k.float().transpose(-1, -2) * scale
    if atten_mask is not None:
        scores = scores.masked_fill(atten_mask, float("-inf"))
    result = (torch.softmax(scores, -1) @ v.float()).to(q.dtype)
    return ({"SBH": lambda x: x.permute(2, 0, 1, 3).flatten(2), "BNSD": lambda x: x,
             "BSND": lambda x: x.transpose(1, 2), "TND": lambda x: x[0].transpose(0, 1)}
            [layout](result),)

npu.npu_fusion_attention = fusion

def all_of(module):
    return {name: case(torch, "cpu") for name, case in module.CASES.items()}

forgets = ""
found = {"fused_ops": all_of(fused_ops), "flash": all_of(flash)}
for forgets in ("padding", "packing", "scale"):
    found[f"flash without {forgets}"] = all_of(flash)
for name, call in {
    "npu_rms_norm": lambda x, gain, epsilon: (x * gain, None),
    "npu_add_rms_norm": lambda a, b, gain, e: (norm(a, gain, e), None, a),
    "npu_rotary_mul": lambda x, cosine, sine: rotary(x, cosine, -sine),
    "npu_swiglu": lambda x, dim: npu.plain(x.flip(dim), dim),
    "npu_grouped_matmul": lambda *both, **more: grouped(*both, **more, shift=1),
    "npu_moe_token_permute": lambda tokens, chosen: permute(tokens, -chosen),
}.items():
    npu.plain = getattr(npu, name)
    setattr(npu, name, call)
    found[name] = all_of(fused_ops)
    setattr(npu, name, npu.plain)
npu.npu_swiglu = lambda x, dim: torch.nn.functional.silu(x.chunk(2, dim)[0].detach()) * (
    x.chunk(2, dim)[1])
found["a gradient is lost"] = all_of(fused_ops)
print(json.dumps(found))
"""

Measured = dict[str, dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def measured(forked_python: Path) -> Measured:
    done = run_program([forked_python, "-c", SUBJECTS, PROBES], check=False, env=on_cpu())
    assert done.returncode == 0, done.stderr
    values: Measured = json.loads(done.stdout)
    return values


def wrong(cases: dict[str, dict[str, float]]) -> set[str]:
    """The cases whose error no rounding explains."""
    return {
        name
        for name, case in cases.items()
        if max(value for key, value in case.items() if key != "seconds") > 2e-2
    }


def test_operators_as_they_are_defined_are_right(measured: Measured) -> None:
    assert not wrong(measured["fused_ops"])
    assert not wrong(measured["flash"])
    assert len(measured["fused_ops"]) == 6
    assert len(measured["flash"]) == 8


@pytest.mark.parametrize(
    ("mutation", "cases"),
    [
        ("npu_rms_norm", {"rms norm"}),
        ("npu_add_rms_norm", {"addition and rms norm"}),
        ("npu_rotary_mul", {"rotary embedding"}),
        ("npu_swiglu", {"swiglu"}),
        ("npu_grouped_matmul", {"grouped matrix product"}),
        ("npu_moe_token_permute", {"permutation of tokens"}),
        ("a gradient is lost", {"swiglu"}),
        ("flash without padding", {"padding, one for all heads", "padding, one a head"}),
        ("flash without packing", {"packed"}),
    ],
)
def test_a_mutated_operator_is_found(measured: Measured, mutation: str, cases: set[str]) -> None:
    assert wrong(measured[mutation]) == cases


def test_attention_without_its_scale_is_wrong_everywhere(measured: Measured) -> None:
    names = wrong(measured["flash without scale"])
    assert names == {name for name in measured["flash"] if not name.startswith("sdpa")}


UNMASKED = """
import torch
attention = torch.nn.functional.scaled_dot_product_attention
torch.nn.functional.scaled_dot_product_attention = lambda *both, **_: attention(*both)
"""


def test_flash_attention_on_the_cpu(forked_python: Path, tmp_path: Path) -> None:
    (rank,) = start_probe(forked_python, "flash-attention").ranks
    assert set(rank.values["cases"]) == {"sdpa causal", "sdpa padding"}
    assert not wrong(rank.values["cases"])
    run = start_probe(forked_python, "flash-attention", mutation=UNMASKED, folder=tmp_path)
    assert wrong(run.ranks[0].values["cases"]) == {"sdpa causal", "sdpa padding"}


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        ("fused-ops", "these are operators of torch_npu, not of cpu"),
        ("fused-softmax", "npu_scaled_masked_softmax is an operator of NPUs, not of cpu"),
        ("h2d", "there is no bus between the CPU and itself"),
    ],
)
def test_a_probe_of_devices_is_skipped_on_the_cpu(
    probe: str, reason: str, forked_python: Path
) -> None:
    (rank,) = start_probe(forked_python, probe).ranks
    assert rank.skipped == reason


# As a device that flushes, rounds a sum, and refuses a product.
MUTATED_DTYPES = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, dtype

class Device(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        result = super().__torch_function__(function, types, arguments, options or {})
        with torch._C.DisableTorchFunctionSubclass():
            name = function.__name__
            if name == "to" and arguments[1] is torch.bfloat16:
                return result.clamp(-2, 2)
            if name == "add" and result.dtype is torch.float64:
                return result + 1
            if name == "matmul" and result.dtype is torch.float16:
                raise RuntimeError("refused")
            return result

convert = torch.Tensor.to
def to(self, *arguments, **options):
    if arguments == ("there",):
        return convert(self, "cpu").as_subclass(Device)
    return convert(self, *arguments, **options)
torch.Tensor.to = to
print(json.dumps({name: case(torch, "there") for name, case in dtype.CASES.items()}))
"""


def test_a_dtype_that_is_wrong_is_measured(forked_python: Path) -> None:
    done = run_program([forked_python, "-c", MUTATED_DTYPES, PROBES], check=False, env=on_cpu())
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["bfloat16"]["differ"] > 0
    assert values["float64"]["sum"] is False
    assert values["float16"]["product_error"] == "RuntimeError: refused"
    fine = values["float32"]
    assert (fine["differ"], fine["sum"]) == (0, True)


def test_dtypes_on_the_cpu(forked_python: Path) -> None:
    (rank,) = start_probe(forked_python, "dtype").ranks
    cases = rank.values["cases"]
    assert list(cases) == [
        *("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2")
    ]
    assert all(case["differ"] == 0 and case.get("sum", True) for case in cases.values())


# Without the last, partial block.
NO_TAIL = """
import os
if os.environ.get("TRITON_INTERPRET"):
    from triton.runtime import interpreter
    class Grid(interpreter.GridExecutor):
        def __init__(self, fn, names, grid, *rest, **more):
            super().__init__(fn, names, (max(grid[0] - 1, 1),), *rest, **more)
    interpreter.GridExecutor = Grid
"""


def test_triton_by_its_interpreter(forked_python: Path, tmp_path: Path) -> None:
    run = start_probe(forked_python, "triton-kernel")
    (rank,) = run.ranks
    if rank.skipped:
        assert rank.skipped == "triton is not installed"
        pytest.skip(rank.skipped)
    assert {name: case["differ"] for name, case in rank.values["cases"].items()} == {
        "scale and add": 0,
        "row sums": 0,
    }
    run = start_probe(forked_python, "triton-kernel", mutation=NO_TAIL, folder=tmp_path)
    assert run.ranks[0].values["cases"]["scale and add"]["differ"] == 1000 % 256
