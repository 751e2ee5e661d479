"""torch_npu's own operators against plain torch, values and gradients."""

# mypy: ignore-errors
# ruff: noqa: FBT003  flags that torch_npu takes by position
# torch is in the interpreter that runs this, not in the one that checks it.

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
import torch_npu
from _compare import NPU, case, cases, close, leaf, main, same

TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def heads_first(x: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    if layout == "BSH":
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)
    if layout == "SBH":
        return x.view(x.shape[0], x.shape[1], heads, -1).permute(1, 2, 0, 3)
    return x.transpose(1, 2) if layout == "BSND" else x


def back(x: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(2)
    return x.transpose(1, 2) if layout == "BSND" else x


def attention(q: Any, k: Any, v: Any, masked: Any, scale: float) -> Any:
    """(B,N,S,D) by plain torch."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = (q @ k.transpose(-1, -2)) * scale
    if masked is not None:
        scores = scores.masked_fill(masked, -math.inf)
    return scores.softmax(-1) @ v


def shape(layout: str, batch: int, seq: int, heads: int, dim: int) -> torch.Tensor:
    return {
        "BSH": lambda: leaf(batch, seq, heads * dim),
        "SBH": lambda: leaf(seq, batch, heads * dim),
        "BSND": lambda: leaf(batch, seq, heads, dim),
        "BNSD": lambda: leaf(batch, heads, seq, dim),
    }[layout]()


LAYOUTS = ("SBH", "BSH", "BSND", "BNSD")
MODES = ("none", "0 full", "0 band", "1 all", "2 left-up", "3 right-down", "4 band")


@cases("attention", [f"{a}, sparse {m}, kv {n}" for a in LAYOUTS for m in MODES for n in (4, 2)])
def attention_layouts(text: str) -> None:
    layout, mode, key_heads = text.split(", ")
    n_kv, name = int(key_heads.removeprefix("kv ")), mode.removeprefix("sparse ")
    batch, sq, sk, heads, dim = 2, 6, 9, 4, 8
    row, column = torch.arange(sq).unsqueeze(1), torch.arange(sk).unsqueeze(0)
    random = torch.rand(batch, 1, sq, sk) < 0.3
    random[..., 0] = False
    options: dict[str, Any] = {}
    masked: Any = None
    if name == "0 full":
        options, masked = {"atten_mask": random}, random
    elif name == "0 band":
        masked = (column > row + 3) | (column < row - 2)
        options = {"atten_mask": masked, "pre_tockens": 2, "next_tockens": 3}
    elif name == "1 all":
        options, masked = {"atten_mask": random, "sparse_mode": 1}, random
    elif name == "2 left-up":
        options, masked = {"atten_mask": TRIANGLE, "sparse_mode": 2}, column > row
    elif name == "3 right-down":
        options, masked = {"atten_mask": TRIANGLE, "sparse_mode": 3}, column > row + 3
    elif name == "4 band":
        masked = (column > row + 3 + 1) | (column < row + 3 - 4)
        options = {"atten_mask": TRIANGLE, "sparse_mode": 4, "pre_tockens": 4, "next_tockens": 1}
    options = {k: v.npu() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    scale = 0.31

    def on_npu(q: Any, k: Any, v: Any) -> Any:
        return torch_npu.npu_fusion_attention(q, k, v, heads, layout, scale=scale, **options)[0]

    def on_cpu(q: Any, k: Any, v: Any) -> Any:
        parts = (heads_first(x, layout, n) for x, n in ((q, heads), (k, n_kv), (v, n_kv)))
        return back(attention(*parts, masked, scale), layout)

    inputs = [shape(layout, batch, s, n, dim) for s, n in ((sq, heads), (sk, n_kv), (sk, n_kv))]
    same(on_npu, on_cpu, *inputs)


@cases("attention TND", [0, 2, 3])
def attention_packed(sparse_mode: int) -> None:
    q_ends, k_ends, heads = [3, 3, 8], [4, 4, 9], 4

    def on_npu(q: Any, k: Any, v: Any) -> Any:
        mask = TRIANGLE.npu() if sparse_mode else None
        return torch_npu.npu_fusion_attention(
            q, k, v, heads, "TND", scale=0.2, atten_mask=mask, sparse_mode=sparse_mode,
            actual_seq_qlen=q_ends, actual_seq_kvlen=k_ends,
        )[0]  # fmt: skip

    def on_cpu(q: Any, k: Any, v: Any) -> Any:
        parts, a, c = [], 0, 0
        for b, d in zip(q_ends, k_ends, strict=True):
            row, column = torch.arange(b - a).unsqueeze(1), torch.arange(d - c).unsqueeze(0)
            shift = {0: 100, 2: 0, 3: (d - c) - (b - a)}[sparse_mode]
            query, key, value = (x.transpose(0, 1).unsqueeze(0) for x in (q[a:b], k[c:d], v[c:d]))
            if b > a:
                part = attention(query, key, value, column > row + shift, 0.2)
                parts.append(part.squeeze(0).transpose(0, 1))
            a, c = b, d
        return torch.cat(parts)

    same(on_npu, on_cpu, leaf(8, heads, 6), leaf(9, 2, 6), leaf(9, 2, 6))


@case
def attention_with_pse_and_sink() -> None:
    def on_npu(q: Any, k: Any, v: Any, pse: Any, sink: Any) -> Any:
        return torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", pse=pse, scale=0.5, sink=sink)[0]

    def on_cpu(q: Any, k: Any, v: Any, pse: Any, sink: Any) -> Any:
        scores = (q @ k.transpose(-1, -2) + pse) * 0.5
        extra = sink.view(1, 2, 1, 1).expand(*scores.shape[:3], 1)
        return torch.cat([scores, extra], -1).softmax(-1)[..., :-1] @ v

    same(on_npu, on_cpu, *(leaf(2, 2, 5, 4) for _ in range(3)), leaf(1, 2, 5, 5), leaf(2))


@case
def attention_statistics_have_the_documented_shapes() -> None:
    q = torch.randn(2, 4, 6, 8)
    out = torch_npu.npu_fusion_attention(q.npu(), q.npu(), q.npu(), 4, "BNSD", scale=1.0)
    scores = q @ q.transpose(-1, -2)
    top = scores.amax(-1, keepdim=True)
    close(out[1], top.expand(2, 4, 6, 8).contiguous())
    close(out[2], (scores - top).exp().sum(-1, keepdim=True).expand(2, 4, 6, 8).contiguous())
    assert out[6] == 2 * 4 * 6 * 6


@case
def attention_dropout_repeats_in_backward() -> None:
    q, k = (torch.randn(1, 1, 64, 8).npu() for _ in range(2))
    v = torch.eye(64).view(1, 1, 64, 64).npu().requires_grad_()
    out = torch_npu.npu_fusion_attention(q, k, v, 1, "BNSD", scale=0.3, keep_prob=0.75)[0]
    weights = (q @ k.transpose(-1, -2) * 0.3).softmax(-1).cpu()
    mask = (out != 0).cpu()
    assert 0.6 < mask.float().mean() < 0.9
    close(out, (weights * mask / 0.75))
    out.backward(torch.ones_like(out))
    column_sums = (weights * mask / 0.75).sum(-2)
    close(v.grad[0, 0, :, 0], column_sums[0, 0])


@case
def attention_wants_the_compressed_triangle() -> None:
    q = torch.randn(1, 1, 4, 8).npu()
    mask = torch.ones(4, 4, dtype=torch.bool).triu(1).npu()
    try:
        torch_npu.npu_fusion_attention(q, q, q, 1, "BNSD", atten_mask=mask, sparse_mode=2)
    except RuntimeError as error:
        assert "aclnnFlashAttentionScore" in str(error)  # noqa: PT017
    else:
        raise AssertionError("a 4x4 mask was taken for the 2048x2048 triangle")


@cases("scaled masked softmax", ["float32", "float16", "bfloat16"])
def scaled_masked_softmax(name: str) -> None:
    dtype = getattr(torch, name)
    mask = torch.rand(2, 1, 32, 32) < 0.4
    same(
        lambda x: torch_npu.npu_scaled_masked_softmax(x, mask.npu(), 0.7, False),
        lambda x: (x.float() * 0.7).masked_fill(mask, -10000.0).softmax(-1).to(dtype),
        leaf(2, 3, 32, 32, dtype=dtype),
        tolerance=1e-5 if dtype == torch.float32 else 2e-2,
    )


def plain_rms_norm(x: Any, gamma: Any, dims: int = 1) -> Any:
    x32 = x.float()
    rstd = torch.rsqrt(x32.square().mean(list(range(-dims, 0)), keepdim=True) + 1e-6)
    return (x32 * rstd * gamma.float()).to(x.dtype), rstd.detach()


@case
def rms_norm() -> None:
    same(torch_npu.npu_rms_norm, plain_rms_norm, leaf(2, 5, 16), leaf(16))
    two = torch_npu.npu_rms_norm
    same(two, lambda x, g: plain_rms_norm(x, g, 2), leaf(2, 5, 16), leaf(5, 16))
    half = torch.bfloat16
    same(two, plain_rms_norm, leaf(2, 16, dtype=half), leaf(16, dtype=half), tolerance=2e-2)


@case
def add_rms_norm() -> None:
    def on_cpu(a: Any, b: Any, gamma: Any) -> Any:
        y, rstd = plain_rms_norm(a + b, gamma)
        return y, rstd, a + b

    plain = [torch.randn(3, 16), torch.randn(3, 16), torch.randn(16)]
    same(torch_npu.npu_add_rms_norm, on_cpu, *plain)


def turn(x: Any, mode: str) -> Any:
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


@cases("rotary", ["half", "interleave"])
def rotary(mode: str) -> None:
    same(
        lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s, mode),
        lambda x, c, s: x * c + turn(x, mode) * s,
        leaf(5, 2, 3, 8), leaf(5, 1, 1, 8), leaf(5, 1, 1, 8),
    )  # fmt: skip


@cases("swiglu", [-1, 0])
def swiglu(dim: int) -> None:
    def on_cpu(x: Any) -> Any:
        a, b = x.chunk(2, dim)
        return F.silu(a) * b

    same(lambda x: torch_npu.npu_swiglu(x, dim=dim), on_cpu, leaf(4, 6, 10))


@case
def activations() -> None:
    same(torch_npu.npu_silu, F.silu, leaf(4, 6))
    same(torch_npu.npu_gelu, F.gelu, leaf(4, 6))
    same(
        lambda x: torch_npu.npu_gelu(x, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"), leaf(4, 6),
    )  # fmt: skip
    same(torch_npu.npu_fast_gelu, lambda x: x * torch.sigmoid(1.702 * x), leaf(4, 6))


@case
def linear_and_bmm() -> None:
    same(torch_npu.npu_linear, F.linear, leaf(5, 6), leaf(7, 6), leaf(7))
    same(lambda a, b: torch_npu.npu_bmmV2(a, b, []), torch.bmm, leaf(2, 5, 6), leaf(2, 6, 7))


@cases("grouped matmul", ["ends", "sizes", "list", "separate", "inner"])
def grouped_matmul(kind: str) -> None:
    x, ends, sizes = torch.randn(9, 4), [2, 2, 9], [2, 0, 7]
    weight = torch.randn(3, 4, 5)
    expected = torch.cat([x[0:2] @ weight[0], x[2:2] @ weight[1], x[2:9] @ weight[2]])
    gmm = torch_npu.npu_grouped_matmul
    if kind == "ends":
        actual = gmm([x.npu()], [weight.npu()], group_list=torch.tensor(ends).npu(), split_item=3,
                    group_type=0, group_list_type=0)  # fmt: skip
        close(actual, [expected])
    elif kind == "sizes":
        actual = gmm([x.npu()], [weight.npu()], group_list=torch.tensor(sizes).npu(), split_item=2,
                    group_type=0, group_list_type=1)  # fmt: skip
        close(actual, [expected])
    elif kind == "list":
        actual = gmm([x.npu()], [w.npu() for w in weight], group_list=ends, split_item=3)
        close(actual, [expected])
    elif kind == "separate":
        xs = [torch.randn(3, 4), torch.randn(2, 4)]
        actual = gmm([matrix.npu() for matrix in xs], [w.npu() for w in weight[:2]],
                    bias=[torch.ones(5).npu(), torch.zeros(5).npu()],
                    split_item=0, group_type=-1)  # fmt: skip
        close(actual, [xs[0] @ weight[0] + 1, xs[1] @ weight[1]])
    else:
        dy = torch.randn(9, 5)
        actual = gmm([x.t().npu()], [dy.npu()], group_list=torch.tensor(sizes).npu(), split_item=3,
                    group_type=2, group_list_type=1)  # fmt: skip
        parts = [x[a:b].t() @ dy[a:b] for a, b in ((0, 2), (2, 2), (2, 9))]
        close(actual, [torch.stack(parts)])


@case
def grouped_matmul_add() -> None:
    total, x, dy = torch.randn(3 * 4, 5), torch.randn(9, 4), torch.randn(9, 5)
    mine = total.npu()
    torch_npu.npu_grouped_matmul_add_(mine, x.npu(), dy.npu(), torch.tensor([2, 2, 9]).npu())
    parts = [x[a:b].t() @ dy[a:b] for a, b in ((0, 2), (2, 2), (2, 9))]
    close(mine, total + torch.cat(parts))


@case
def moe_permute_and_unpermute() -> None:
    indices = torch.tensor([[0, 2], [1, 0], [2, 1], [0, 1]])

    def permuted(tokens: Any) -> Any:
        order = indices.flatten().argsort(stable=True)
        return tokens[order // 2], order.argsort(stable=True).int()

    same(lambda t: torch_npu.npu_moe_token_permute(t, indices.npu()), permuted, leaf(4, 6))
    where = permuted(torch.zeros(4, 6))[1]
    same(
        lambda t: torch_npu.npu_moe_token_permute(t, indices.npu(), 5)[0],
        lambda t: permuted(t)[0][:5], leaf(4, 6),
    )  # fmt: skip
    same(
        lambda rows, probs: torch_npu.npu_moe_token_unpermute(rows, where.npu(), probs),
        lambda rows, probs: (rows[where.long()].view(4, 2, 6) * probs.unsqueeze(-1)).sum(1),
        leaf(8, 6), leaf(4, 2),
    )  # fmt: skip
    same(
        lambda rows: torch_npu.npu_moe_token_unpermute(rows, where.npu()),
        lambda rows: rows[where.long()], leaf(8, 6),
    )  # fmt: skip


ROUTES = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=torch.bool)


@case
def moe_permute_by_routing_map() -> None:
    def on_cpu(tokens: Any, probs: Any) -> Any:
        _, rows = ROUTES.t().nonzero(as_tuple=True)
        chosen = probs.t().masked_select(ROUTES.t())
        return tokens[rows], chosen, rows.argsort(stable=True).int()

    same(
        lambda t, p: torch_npu.npu_moe_token_permute_with_routing_map(
            t, ROUTES.npu(), probs=p, num_out_tokens=8
        ),
        on_cpu, leaf(4, 6), leaf(4, 3),
    )  # fmt: skip

    def padded(tokens: Any, probs: Any) -> Any:
        order = ROUTES.to(torch.int8).t().sort(dim=-1, descending=True, stable=True)[1][:, :2]
        return tokens[order.flatten()], probs.t().gather(1, order).flatten(), order.flatten().int()

    same(
        lambda t, p: torch_npu.npu_moe_token_permute_with_routing_map(
            t, ROUTES.npu(), probs=p, num_out_tokens=6, drop_and_pad=True
        ),
        padded, leaf(4, 6), leaf(4, 3),
    )  # fmt: skip


@case
def moe_unpermute_by_routing_map() -> None:
    _, rows = ROUTES.t().nonzero(as_tuple=True)
    where = rows.argsort(stable=True)

    def on_cpu(permuted: Any, probs: Any) -> Any:
        chosen = probs.masked_select(ROUTES).view(4, 2, 1)
        return (permuted[where].view(4, 2, 6) * chosen).sum(1)

    same(
        lambda x, p: torch_npu.npu_moe_token_unpermute_with_routing_map(
            x, where.int().npu(), [4, 6], probs=p, routing_map=ROUTES.npu()
        ),
        on_cpu, leaf(8, 6), leaf(4, 3),
    )  # fmt: skip
    same(
        lambda x: torch_npu.npu_moe_token_unpermute_with_routing_map(
            x, where.int().npu(), [4, 6], routing_map=ROUTES.npu()
        ),
        lambda x: x[where].view(4, 2, 6).sum(1), leaf(8, 6),
    )  # fmt: skip
    order = ROUTES.to(torch.int8).t().sort(dim=-1, descending=True, stable=True)[1][:, :2]

    def padded(x: Any, probs: Any) -> Any:
        weighted = x * probs.t().gather(1, order).flatten().unsqueeze(1)
        return torch.zeros(4, 6).index_add(0, order.flatten(), weighted)

    same(
        lambda x, p: torch_npu.npu_moe_token_unpermute_with_routing_map(
            x, order.flatten().int().npu(), [4, 6], probs=p, routing_map=ROUTES.npu(),
            drop_and_pad=True,
        ),
        padded, leaf(6, 6), leaf(4, 3),
    )  # fmt: skip


@case
def moe_gating() -> None:
    x, finished = torch.randn(4, 7), torch.tensor([False, True, False, False])
    y, experts = x.softmax(-1).topk(3)
    actual = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), finished.npu(), 3)
    experts[1] = 7
    rows = torch.arange(12).view(3, 4).t().contiguous()
    close(actual, (y, experts.int(), rows.int()))


@cases("ring attention update", ["SBH", "TND"])
def ring_attention_update(layout: str) -> None:
    """Attention over two halves of the keys, merged, is attention over all of them."""
    q, k, v = torch.randn(5, 1, 16), torch.randn(8, 1, 16), torch.randn(8, 1, 16)
    options: dict[str, Any] = {"scale": 0.4}
    merge: dict[str, Any] = {"input_layout": layout}
    if layout == "TND":
        q, k, v = (x.view(-1, 2, 8) for x in (q, k, v))
        options |= {"softmax_layout": "TND", "actual_seq_qlen": [5]}
        merge |= {"input_softmax_layout": "TND", "actual_seq_qlen": torch.tensor([5]).npu()}

    def attend(part: slice) -> Any:
        keys = {"actual_seq_kvlen": [len(k[part])]} if layout == "TND" else {}
        inputs = (q.npu(), k[part].contiguous().npu(), v[part].contiguous().npu())
        return torch_npu.npu_fusion_attention(*inputs, 2, layout, **options, **keys)[:3]

    merged = torch_npu.npu_ring_attention_update(
        *attend(slice(0, 3)), *attend(slice(3, 8)), **merge
    )
    close(merged, [x.cpu() for x in attend(slice(0, 8))])


@case
def dtype_cast() -> None:
    same(
        lambda x: torch_npu.npu_dtype_cast(x, torch.float16), lambda x: x.to(torch.float16),
        leaf(4, 6),
    )  # fmt: skip


@case
def format_cast_keeps_the_values() -> None:
    same(lambda x: torch_npu.npu_format_cast(x, 29), lambda x: x.clone(), leaf(16, 16))
    x = torch.randn(16, 16).npu()
    assert torch_npu.npu_format_cast_(x, 29) is x


@case
def adam_w_step() -> None:
    var, m, v, grad = torch.randn(4, 5), torch.rand(4, 5), torch.rand(4, 5), torch.randn(4, 5)
    mine = [x.clone().npu() for x in (var, m, v)]
    beta1, beta2, step = 0.9, 0.99, 3
    returned = torch_npu.npu_apply_adam_w(
        beta1 ** (step - 1), beta2 ** (step - 1), 0.1, 0.01, beta1, beta2, 1e-8, grad.npu(),
        None, False, False, out=tuple(mine),
    )  # fmt: skip
    assert [x.data_ptr() for x in returned] == [x.data_ptr() for x in mine]
    theirs = [x.clone() for x in (var, m, v)]
    torch._fused_adamw_(
        [theirs[0]], [grad], [theirs[1]], [theirs[2]], [], [torch.tensor(float(step))],
        lr=0.1, beta1=beta1, beta2=beta2, weight_decay=0.01, eps=1e-8, amsgrad=False,
        maximize=False,
    )  # fmt: skip
    close(mine, theirs)


@case
def fused_adam_w_of_torch_npu() -> None:
    def train(device: Any, kind: Any) -> list[torch.Tensor]:
        torch.manual_seed(1)
        model = torch.nn.Linear(6, 4).to(device)
        optimizer = kind(model.parameters(), lr=0.05)
        x = torch.ones(3, 6).to(device)
        for _ in range(4):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    close(train(NPU, torch_npu.optim.NpuFusedAdamW), train("cpu", torch.optim.AdamW))


@case
def an_operator_that_is_not_simulated_fails_with_its_name() -> None:
    x = torch.randn(4, 16, dtype=torch.float16).npu()
    try:
        torch_npu.npu_dynamic_quant(x)
        torch.npu.synchronize()
    except (RuntimeError, NotImplementedError) as error:
        assert "ynamicQuant" in str(error) or "dynamic_quant" in str(error), str(error)  # noqa: PT017
    else:
        raise AssertionError("npu_dynamic_quant returned something")


@case
def an_option_that_is_not_simulated_is_named() -> None:
    x = torch.randn(2, 4, 8, 16).npu()
    mask = torch.ones(8, 8, dtype=torch.bool).npu()
    rows, weight = torch.randn(4, 8).npu(), torch.randn(2, 8, 8).npu()
    ends, rotary = torch.tensor([2, 4]).npu(), torch.randn(2, 4, 1, 16).npu()
    fused, grouped = torch_npu.npu_fusion_attention, torch_npu.npu_grouped_matmul
    calls: dict[str, Callable[[], Any]] = {
        "sparse_mode 7": lambda: fused(x, x, x, 4, "BNSD", atten_mask=mask, sparse_mode=7),
        "group_list_type 2": lambda: grouped(
            [rows], [weight], group_list=ends, split_item=2, group_type=0, group_list_type=2
        ),
        "layout TND": lambda: torch_npu.npu_apply_rotary_pos_emb(x, x, rotary, rotary, "TND"),
    }
    for option, call in calls.items():
        try:
            call()
        except RuntimeError as error:  # noqa: PERF203
            assert f"{option} is not simulated" in str(error), str(error)  # noqa: PT017
        else:
            raise AssertionError(f"{option} gave something")


main()
