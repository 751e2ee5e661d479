"""Torch's own factories, as they were when torch_npu was imported.

DeepSpeed's zero.Init puts others in their place while a model is built, which give tensors of the
device and of its dtype (deepspeed/runtime/zero/partition_parameters.py: `torch.empty = ...`).
"""

import torch

arange = torch.arange
empty = torch.empty
ones = torch.ones
tensor = torch.tensor
zeros = torch.zeros
