"""Training on the simulated NPU gives the losses of training on the CPU."""

# mypy: ignore-errors
# torch is in the interpreter that runs this, not in the one that checks it.

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from _compare import NPU, case, cases, close, main
from torch import nn


def losses(
    model: nn.Module, optimizer: Any, inputs: Any, device: Any, steps: int = 10
) -> list[float]:
    model = model.to(device)
    chosen = optimizer(model.parameters())
    x, y = (v.to(device) for v in inputs)
    torch.manual_seed(6)  # making the model has drawn from the generator of the CPU only
    seen = []
    for _ in range(steps):
        chosen.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out.flatten(0, -2), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        seen.append(loss.item())
    assert seen[-1] < seen[0], "the loss does not fall"
    return seen


def agree(make: Any, optimizer: Any, inputs: Any, tolerance: float = 1e-5) -> None:
    results = []
    for device in (NPU, torch.device("cpu")):
        torch.manual_seed(4)
        results.append(losses(make(), optimizer, inputs, device))
    torch.testing.assert_close(*(torch.tensor(r) for r in results), rtol=tolerance, atol=0)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "AdamW fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "AdamW plain": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


@cases("perceptron", OPTIMIZERS)
def perceptron(name: str) -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5))

    agree(make, OPTIMIZERS[name], (torch.randn(16, 8), torch.randint(0, 5, (16,))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(32, 40)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        size = tokens.shape[1]
        mask = torch.ones(size, size, dtype=torch.bool, device=tokens.device).triu(1)
        return self.out(self.encoder(self.embedding(tokens), mask=mask))


@case
def transformer() -> None:
    tokens = torch.randint(0, 40, (4, 13))
    agree(Transformer, OPTIMIZERS["AdamW"], (tokens[:, :-1], tokens[:, 1:]))


@case
def dropout_draws_what_it_draws_on_the_cpu() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 5))

    agree(make, OPTIMIZERS["AdamW"], (torch.randn(16, 8), torch.randint(0, 5, (16,))))


@case
def transformer_gradients() -> None:
    tokens = torch.randint(0, 40, (4, 13))
    mine, theirs = Transformer().npu(), Transformer()
    mine.load_state_dict(theirs.state_dict())
    for model, device in ((mine, NPU), (theirs, "cpu")):
        model(tokens.to(device)).square().mean().backward()
    for parameter, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(parameter.grad, other.grad)


@case
def convolutions() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.out = nn.Linear(8 * 16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
            return self.out(x.flatten(1))

    inputs = (torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,)))
    agree(Net, OPTIMIZERS["SGD"], inputs)


@case
def activation_checkpointing_repeats_dropout() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(16, 16).npu()
    x = torch.randn(4, 16).npu()

    def block(value: torch.Tensor) -> torch.Tensor:
        return F.dropout(layer(value), 0.5)

    gradients = []
    for run in (block, lambda v: checkpoint(block, v, use_reentrant=False)):
        torch.manual_seed(9)
        layer.zero_grad()
        run(x).sum().backward()
        gradients.append(layer.weight.grad.cpu().clone())
    assert torch.equal(*gradients)


main()
