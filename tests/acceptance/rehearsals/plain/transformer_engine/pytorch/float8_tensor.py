"""The type of tensors of which the CPU has none."""


class Float8Tensor:
    """Megatron asks whether a tensor is one."""
