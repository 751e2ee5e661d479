"""Streams and events under torch_npu's default task queue."""
# ruff: noqa: T201 - the test reads what it prints

import os

import torch

assert "TASK_QUEUE_ENABLE" not in os.environ
side = torch.npu.Stream()
main = torch.npu.current_stream()
start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
for _ in range(50):
    x = torch.full((1000,), 2.0).npu()
    side.wait_stream(main)
    with torch.npu.stream(side):
        start.record()
        y = x * 3
        y += 1
        end.record()
    main.wait_event(end)
    z = y - 7
    x.zero_()
    assert z.abs().max().item() == 0
end.synchronize()
assert end.query()
assert start.elapsed_time(end) >= 0
assert side.query()
torch.npu.synchronize()
print("ok")
