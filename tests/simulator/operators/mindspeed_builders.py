"""MindSpeed's compiled operators, loaded through a package that has its builders' shape."""
# mypy: ignore-errors
# torch is in the interpreter that runs this, not in the one that checks it.
# ruff: noqa: ANN001, ANN201, ANN202  imports wait until the package has been written

import sys
import tempfile
from pathlib import Path

import torch
from _compare import NPU, case, close, leaf, main, same

BASE = """
class MindSpeedOpBuilder:
    def __init__(self, name):
        self.name = name

    def load(self, verbose=True):
        raise OSError(f"{self.name} was compiled")
"""
ATB = """
from mindspeed.op_builder.builder import MindSpeedOpBuilder

class AtbOpBuilder(MindSpeedOpBuilder):
    def load(self, verbose=True):
        raise OSError(f"{self.name} was compiled for ATB")
"""


def package() -> None:
    folder = Path(tempfile.mkdtemp())
    builders = folder / "mindspeed" / "op_builder"
    builders.mkdir(parents=True)
    for path, text in (
        (folder / "mindspeed" / "__init__.py", ""),
        (builders / "__init__.py", ""),
        (builders / "builder.py", BASE),
        (builders / "atb_builder.py", ATB),
    ):
        path.write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))


def load(name: str, *, atb: bool = False):
    if atb:
        from mindspeed.op_builder.atb_builder import AtbOpBuilder as Builder
    else:
        from mindspeed.op_builder.builder import MindSpeedOpBuilder as Builder
    return Builder(name).load()


X, W, DY = torch.randn(9, 4), torch.randn(3, 4, 5), torch.randn(9, 5)
SPANS = ((0, 2), (2, 2), (2, 9))
ENDS, SIZES = [2, 2, 9], [2, 0, 7]


@case
def grouped_matmul_by_list_and_by_tensor() -> None:
    module = load("grouped_matmul")
    expected = torch.cat([X[a:b] @ w for (a, b), w in zip(SPANS, W, strict=True)])
    close(module.npu_gmm([X.npu()], [W.npu()], [], ENDS, 0, 0), [expected])
    sizes = torch.tensor(SIZES).npu()
    close(load("grouped_matmul_v2").npu_gmm([X.npu()], [W.npu()], [], sizes, 0, 1), [expected])


@case
def grouped_matmul_backward() -> None:
    dx = torch.cat([DY[a:b] @ w.t() for (a, b), w in zip(SPANS, W, strict=True)])
    dw = torch.stack([X[a:b].t() @ DY[a:b] for a, b in SPANS])
    module = load("grouped_matmul")
    actual = module.npu_gmm_backward([DY.npu()], [X.npu()], [W.npu()], ENDS, 0)
    close(actual, ([dx], [dw], []))
    fused = module.npu_gmm_backward_fusion([DY.npu()], [W.npu()], ENDS, 0)
    close(fused, ([dx], [], []))
    total = torch.ones(12, 5).npu()
    adder = load("npu_groupmatmul_add_fp32", atb=True)
    adder.npu_groupmatmul_add_fp32(X.npu(), DY.npu(), torch.tensor(ENDS).npu(), total)
    close(total, dw.flatten(0, 1) + 1)


@case
def matmul_add() -> None:
    total = torch.ones(5, 4, device=NPU)
    load("npu_matmul_add_fp32", atb=True).npu_matmul_add_fp32(DY.npu(), X.npu(), total)
    close(total, DY.t() @ X + 1)


@case
def fused_adamw_v2() -> None:
    """As torch's AdamW in its second step, in the place of its arguments."""
    weight = torch.nn.Parameter(W[0].clone())
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.01)
    arguments = [weight.detach().clone().npu(), *(torch.zeros_like(W[0]).npu() for _ in range(2))]
    step = load("npu_apply_fused_adamw_v2").npu_apply_fused_adamw_v2
    for number in (1.0, 2.0):
        weight.grad = W[1] * number
        optimizer.step()
        step(arguments[0], weight.grad.npu(), *arguments[1:], arguments[2], torch.tensor(number),
             0.1, 0.9, 0.999, 0.01, 1e-8, *(False, False))  # fmt: skip
    close(arguments[0], weight.detach())


@case
def rotary() -> None:
    def on_cpu(x, cos, sin):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    rope = load("npu_rotary_position_embedding").npu_rotary_position_embedding
    same(rope, on_cpu, leaf(5, 2, 3, 8), torch.randn(5, 1, 1, 8), torch.randn(5, 1, 1, 8))


@case
def permute_and_unpermute() -> None:
    indices = torch.tensor([[0, 2], [1, 0], [2, 1], [0, 1]])
    probs, tokens = torch.rand(4, 2), torch.randn(4, 6)
    permute = load("npu_moe_token_permute").npu_moe_token_permute
    rows, where = permute(tokens.npu(), indices.npu(), None, False)  # noqa: FBT003
    unpermute = load("npu_moe_token_unpermute").npu_moe_token_unpermute
    actual = unpermute(rows, where, probs.npu(), False, None)  # noqa: FBT003
    close(actual, tokens * probs.sum(1, keepdim=True))


def refusal(*, atb: bool) -> str:
    try:
        load("npu_ffn", atb=atb)
    except OSError as error:
        return str(error)
    return "a builder that is not simulated gave something"


@case
def another_builder_still_compiles() -> None:
    assert refusal(atb=False) == "npu_ffn was compiled"
    assert refusal(atb=True) == "npu_ffn was compiled for ATB"


@case
def python_module_of_cann() -> None:
    import acl

    assert acl.get_soc_name().startswith("Ascend910B")
    free, total, code = acl.rt.get_mem_info(1)
    assert 0 < free <= total
    assert code == 0


package()
main()
