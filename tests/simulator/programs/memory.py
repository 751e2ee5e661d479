"""Device memory: limits, statistics, and what is given back."""
# ruff: noqa: T201 - the test reads what it prints

import torch

MIB = 1 << 20


def used_bytes() -> int:
    free, total = torch.npu.mem_get_info()
    return int(total - free)


before = used_bytes()
block = torch.empty(256 * MIB, dtype=torch.uint8, device="npu")
# torch_npu pads a block for its kernels, and takes whole segments
assert 256 * MIB < used_bytes() - before <= 260 * MIB, used_bytes()
assert 0 <= torch.npu.memory_allocated() - 256 * MIB <= 512
refusal = ""
try:
    torch.empty(1024 * MIB, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    refusal = str(error)
assert "NPU out of memory. Tried to allocate 1.00 GiB" in refusal, refusal
block.fill_(7)
assert int(block.sum(dtype=torch.int64)) == 7 * 256 * MIB
del block
torch.npu.empty_cache()
assert used_bytes() - before == 0, used_bytes()
pinned = torch.arange(1000).pin_memory()
assert pinned.is_pinned()
assert torch.equal(pinned.npu(non_blocking=True).cpu(), torch.arange(1000))
print("ok")
