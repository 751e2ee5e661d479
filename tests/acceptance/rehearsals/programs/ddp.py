"""A plain training under DistributedDataParallel, on the device that ASCEND_DOCTOR_DEVICE names.

Its first line is the time at which it came to run.
"""

import os
import time

print(f"started {time.time():.3f}", flush=True)

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = 10


def main() -> None:
    device = os.environ.get("ASCEND_DOCTOR_DEVICE", "npu")
    if device == "npu":
        import torch_npu  # noqa: F401

        torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl" if device == "npu" else "gloo")
    torch.manual_seed(1234)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    model = DistributedDataParallel(
        nn.Sequential(nn.Embedding(1000, 64), layer, nn.Linear(64, 1000)).to(device)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = torch.randint(0, 1000, (STEPS * 8, 65))
    data = TensorDataset(rows[:, :-1], rows[:, 1:])
    loader = DataLoader(
        data, batch_size=4, sampler=DistributedSampler(data, shuffle=False), num_workers=1
    )
    for number, (tokens, following) in enumerate(loader, 1):
        start = time.monotonic()
        optimizer.zero_grad()
        logits = model(tokens.to(device)).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, following.to(device).flatten())
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss)
        value = loss.item() / dist.get_world_size()
        elapsed = 1000 * (time.monotonic() - start)
        if dist.get_rank() == 0:
            print(
                f"elapsed time per iteration (ms): {elapsed:.1f} | lm loss: {value:.6E} | "
                f"step {number}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
