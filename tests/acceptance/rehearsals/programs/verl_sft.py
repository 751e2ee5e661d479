"""verl's trainer of SFT where plain_cpu.py answers for CUDA, of which verl has an engine.

usage: plain_cpu.py verl_sft.py OPTIONS…
"""

# mypy: ignore-errors

import runpy

from verl.utils import device

# verl asks this before it names a device, and nothing else asks it.
device.is_cuda_available = True

if __name__ == "__main__":
    runpy.run_module("verl.trainer.sft_trainer", run_name="__main__", alter_sys=True)
