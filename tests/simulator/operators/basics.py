"""Tensors of the simulated NPU: places, copies, views, random numbers, autograd and autocast."""

# mypy: ignore-errors
# torch is in the interpreter that runs this, not in the one that checks it.

import contextlib
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from _compare import NPU, case, cases, close, leaf, main, same
from ascend_simulator.kernels import kernel_for


@case
def copies_between_host_and_device() -> None:
    x = torch.randn(3, 4)
    assert x.npu().device == NPU
    assert torch.equal(x.npu().cpu(), x)
    assert torch.equal(x.npu().to("cpu", torch.float64), x.double())
    assert torch.equal(x.t().npu().cpu(), x.t())
    there = torch.zeros(4, 3, device=NPU)
    there.copy_(x.t(), non_blocking=True)
    close(there, x.t().contiguous())
    here = torch.zeros(3, 4)
    here.copy_(there.t())
    assert torch.equal(here, x)
    assert x.npu().to("meta").shape == x.shape


@case
def operators_are_not_compiled_at_their_first_call() -> None:
    assert torch.npu.is_jit_compile_false()


@case
def results_that_a_release_does_not_declare_are_left_out() -> None:
    schema = torch._C.parse_schema("probe::gradients(Tensor a) -> (Tensor, Tensor)")
    x = torch.randn(3).npu()
    first, second = kernel_for(lambda a: (a, 2 * a, a.new_empty(0)), schema)(x)
    assert torch.equal(second, 2 * first)
    for wrong in (lambda a: (a, a, a), lambda a: (a,)):
        with contextlib.suppress(RuntimeError):
            kernel_for(wrong, schema)(x)
            raise AssertionError("results that are not declared were returned")


@case
def a_half_precision_loss_of_a_large_vocabulary() -> None:
    x = torch.randn(3, 151936, dtype=torch.float16)
    target = torch.tensor([0, 7, 151935])
    loss = F.cross_entropy(x.to(NPU), target.to(NPU))
    close(loss, F.cross_entropy(x.float(), target).half(), 1e-3)


@case
def large_triangles() -> None:
    x = torch.rand(2, 1100, 1000) > 0.1
    for diagonal in (0, 1, -3):
        assert torch.equal(x.to(NPU).triu(diagonal).cpu(), x.triu(diagonal))
    causal = F.scaled_dot_product_attention
    q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    close(causal(q.to(NPU), k.to(NPU), v.to(NPU), is_causal=True), causal(q, k, v, is_causal=True))


@case
def copies_between_devices() -> None:
    x = torch.randn(3, 4, device="npu:1")
    y = x.to("npu:0")
    assert y.get_device() == 0
    assert torch.equal(y.cpu(), x.cpu())
    assert (x + 1).get_device() == 1


@case
def a_copy_to_the_host_does_not_share_memory() -> None:
    x = torch.ones(3, device=NPU)
    y = x.cpu()
    x.add_(1)
    assert y.tolist() == [1, 1, 1]


@case
def views_share_memory() -> None:
    x = torch.zeros(4, 6, device=NPU)
    x[1:3, ::2].fill_(1)
    x.t()[5].add_(2)
    x.view(2, 12)[0, 0] = 7
    x.unsqueeze(0).squeeze(0).select(1, 1).mul_(0).sub_(1)
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] = 1
    expected[:, 5] += 2
    expected[0, 0] = 7
    expected[:, 1] = -1
    close(x, expected)
    close(x.unfold(1, 2, 3), expected.unfold(1, 2, 3))
    close(x.diagonal(), expected.diagonal())


@case
def in_place_results_are_their_argument() -> None:
    x = torch.ones(3, device=NPU)
    assert x.add_(1) is x
    out = torch.empty(0, device=NPU)
    assert torch.add(x, 1, out=out) is out
    close(out, torch.full((3,), 3.0))
    big = torch.empty(9, device=NPU)
    values, indices = torch.empty(0, device=NPU), torch.empty(0, dtype=torch.long, device=NPU)
    torch.max(x.view(1, 3), 1, out=(values, indices))
    close((values, indices), (torch.tensor([2.0]), torch.tensor([0])))
    torch.mul(x, x, out=big[:3])
    close(big[:3], torch.full((3,), 4.0))
    torch.mul(x, x, out=x)
    close(x, torch.full((3,), 4.0))


@case
def out_keeps_its_strides() -> None:
    out = torch.empty(4, 3, device=NPU).t()
    torch.add(torch.ones(3, 4, device=NPU), 1, out=out)
    assert out.stride() == (1, 3)
    close(out, torch.full((3, 4), 2.0))


@case
def a_list_of_out_tensors_is_written() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    out = [torch.empty(3, 1, device=NPU), torch.empty(3, 6, device=NPU)[:, ::2]]
    torch.split_with_sizes_copy(x.to(NPU), [1, 3], 1, out=out)
    close(out, x.split([1, 3], 1))


@case
def factories_that_a_framework_replaced_do_no_harm() -> None:
    """As DeepSpeed's zero.Init does: on the device, and of another dtype."""
    names = ("arange", "empty", "ones", "tensor", "zeros")
    own = {name: getattr(torch, name) for name in names}
    x = torch.arange(12.0).reshape(3, 4)

    def replaced(factory: Any) -> Any:
        return lambda *args, **named: factory(*args, **{**named, "device": NPU}).bfloat16()

    try:
        for name, factory in own.items():
            setattr(torch, name, replaced(factory))
        scaled = x.to(NPU).t().contiguous() * 2
        mask = torch.ops.npu._npu_dropout(scaled, 0.5)[1]
    finally:
        for name, factory in own.items():
            setattr(torch, name, factory)
    close(scaled, x.t() * 2)
    assert mask.dtype == torch.uint8


@case
def a_cast_to_double_is_one_to_float() -> None:
    x = torch.ones(3, device=NPU)
    assert x.double().dtype == x.to(torch.float64).dtype == torch.float32
    assert torch.ones(3, dtype=torch.float64).to(NPU).dtype == torch.float64


@case
def strides_and_formats_survive() -> None:
    x = torch.randn(2, 3, 4, 5)
    for view in (x.permute(3, 1, 0, 2), x.contiguous(memory_format=torch.channels_last)):
        there = view.npu()
        assert there.stride() == view.stride()
        assert (there * 2).stride() == (view * 2).stride()
        close(there * 2, view * 2)
        assert there.contiguous().is_contiguous()
        close(there.contiguous(), view.contiguous())


@case
def the_same_seed_draws_the_same_numbers() -> None:
    def draw(device: Any) -> list[torch.Tensor]:
        torch.manual_seed(11)
        x = torch.empty(40, device=device)
        return [
            torch.randn(50, device=device), torch.rand(7, device=device),
            torch.randint(0, 9, (20,), device=device), torch.randperm(12, device=device),
            x.normal_(1, 2).clone(), x.uniform_(-1, 1).clone(), x.exponential_().clone(),
            torch.bernoulli(torch.full((30,), 0.3, device=device)),
            torch.multinomial(torch.ones(9, device=device), 4),
            F.dropout(torch.ones(64, device=device), 0.4),
            torch.randn_like(x), torch.normal(torch.zeros(5, device=device), 2.0),
        ]  # fmt: skip

    close(draw(NPU), draw("cpu"), 0.0)


@case
def a_restored_generator_repeats() -> None:
    torch.manual_seed(3)
    torch.rand(5, device=NPU)
    state = torch.npu.get_rng_state()
    first = torch.rand(9, device=NPU), torch.randn(3, device=NPU)
    torch.rand(100, device=NPU)
    torch.npu.set_rng_state(state)
    second = torch.rand(9, device=NPU), torch.randn(3, device=NPU)
    close(first, [x.cpu() for x in second], 0.0)
    own = torch.Generator(device=NPU).manual_seed(8)
    third = torch.rand(4, device=NPU, generator=own)
    close(third, torch.rand(4, generator=torch.Generator().manual_seed(8)), 0.0)


@case
def a_state_that_was_never_reached_is_still_reproducible() -> None:
    state = torch.tensor([77, 4000], dtype=torch.int64).view(torch.uint8)
    draws = []
    for _ in range(2):
        torch.npu.set_rng_state(state)
        draws.append(torch.rand(6, device=NPU).cpu())
    assert torch.equal(draws[0], draws[1])


@cases("matmul", [((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((3, 5), (5, 4)),
                  ((2, 3, 5), (5, 4)), ((2, 3, 5), (5,)), ((5,), (2, 5, 4)),
                  ((2, 3, 5), (2, 5, 4)), ((7, 1, 3, 5), (2, 5, 4))])  # fmt: skip
def matmul(shapes: tuple[Any, Any]) -> None:
    same(torch.matmul, torch.matmul, leaf(*shapes[0]), leaf(*shapes[1]))


@case
def second_derivatives() -> None:
    def penalty(a: Any, b: Any) -> Any:
        y = torch.tanh(a @ b).sum()
        first = torch.autograd.grad(y, (a, b), create_graph=True)
        return sum(g.square().sum() for g in first).view(1)

    same(penalty, penalty, leaf(3, 4), leaf(4, 2))


@case
def formulas_of_torch_npu() -> None:
    index = torch.tensor([[0, 2, 1], [1, 1, 0]])
    same(lambda x: x.gather(1, index.npu()), lambda x: x.gather(1, index), leaf(2, 4))
    for reduction in ("mean", "sum", "none"):
        same(
            lambda a, b, r=reduction: F.l1_loss(a, b, reduction=r),
            lambda a, b, r=reduction: F.l1_loss(a, b, reduction=r), leaf(3, 4), leaf(3, 4),
        )  # fmt: skip
        target = torch.rand(3, 4)
        same(
            lambda a, t=target, r=reduction: F.binary_cross_entropy_with_logits(
                a, t.npu(), reduction=r
            ),
            lambda a, t=target, r=reduction: F.binary_cross_entropy_with_logits(a, t, reduction=r),
            leaf(3, 4),
        )  # fmt: skip
        same(
            lambda a, b, r=reduction: F.kl_div(a.log_softmax(1), b.softmax(1), reduction=r),
            lambda a, b, r=reduction: F.kl_div(a.log_softmax(1), b.softmax(1), reduction=r),
            leaf(3, 4), leaf(3, 4),
        )  # fmt: skip
    same(lambda x: x.repeat_interleave(3, 1), lambda x: x.repeat_interleave(3, 1), leaf(2, 4))
    times = torch.tensor([1, 0, 2])
    same(
        lambda x: x.repeat_interleave(times.npu(), 0), lambda x: x.repeat_interleave(times, 0),
        leaf(3, 4),
    )  # fmt: skip


@case
def lists_of_tensors() -> None:
    xs = [torch.randn(3), torch.randn(2, 2)]
    ys = [x.npu() for x in xs]
    close(torch._foreach_mul(ys, 3.0), torch._foreach_mul(xs, 3.0))
    torch._foreach_addcdiv_(ys, ys, [y.abs() + 1 for y in ys], 0.5)
    torch._foreach_addcdiv_(xs, xs, [x.abs() + 1 for x in xs], 0.5)
    close(ys, xs)
    close(torch._foreach_norm(ys), torch._foreach_norm(xs))
    close(torch.cat([y.flatten() for y in ys]), torch.cat([x.flatten() for x in xs]))
    norms = [
        torch.nn.utils.clip_grad_norm_([_with_gradient(v) for v in vs], 0.1) for vs in (ys, xs)
    ]
    close(norms[0], norms[1])


def _with_gradient(value: torch.Tensor) -> torch.Tensor:
    parameter = torch.nn.Parameter(value.clone())
    parameter.grad = value.clone() * 3
    return parameter


@case
def autocast() -> None:
    x, layer = torch.randn(4, 8), torch.nn.Linear(8, 8)
    there = torch.nn.Linear(8, 8).npu()
    there.load_state_dict(layer.state_dict())
    with torch.autocast("npu", dtype=torch.bfloat16):
        mine = there(x.npu())
        assert mine.dtype == torch.bfloat16
        assert mine.softmax(-1).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theirs = layer(x)
    close(mine, theirs, 2e-2)


@case
def grad_scaler_skips_a_step_with_infinite_gradients() -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device=NPU))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("npu", init_scale=2.0)
    for factor in (1.0, float("inf")):
        optimizer.zero_grad()
        scaler.scale((parameter * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    close(parameter.detach(), torch.zeros(3))


@case
def inference_mode_leaves_no_trace() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, device=NPU))
    with torch.inference_mode():
        assert (parameter * 2).sum().item() == 8
    (parameter * 2).sum().backward()
    with torch.no_grad():
        parameter.sub_(parameter.grad)
    close(parameter.detach(), torch.full((4,), -1.0))


@case
def empty_tensors() -> None:
    x = torch.empty(0, 4, device=NPU)
    close(x + 1, torch.empty(0, 4))
    close(x.sum(), torch.tensor(0.0))
    close(torch.cat([x, torch.ones(1, 4, device=NPU)]), torch.ones(1, 4))
    close(x @ torch.ones(4, 3, device=NPU), torch.empty(0, 3))


@case
def an_operator_that_fails_does_no_harm() -> None:
    x = torch.ones(4, device=NPU)
    refused = 0
    for wrong in (torch.ones(3), torch.ones(2, 2, 3)):
        with contextlib.suppress(RuntimeError):
            x.add_(wrong.npu())
            refused -= 1
        refused += 1
    assert refused == 2
    close(x + x, torch.full((4,), 2.0))


@case
def python_and_cpp_operators_keep_their_order() -> None:
    # resize_ and the host copy of item() are torch_npu's own and go through its queue.
    x = torch.arange(4.0, device=NPU)
    for step in range(200):
        x.add_(1)
        x.resize_(4 + step % 3)
        x.resize_(4)
    assert x.tolist() == [200.0, 201.0, 202.0, 203.0]


@case
def streams_and_events() -> None:
    x = torch.zeros(1000, device=NPU)
    other = torch.npu.Stream()
    for _ in range(20):
        with torch.npu.stream(other):
            other.wait_stream(torch.npu.current_stream())
            x.add_(1)
        torch.npu.current_stream().wait_stream(other)
        x.mul_(1)
    event = torch.npu.Event()
    event.record()
    event.synchronize()
    close(x, torch.full((1000,), 20.0))


main()
