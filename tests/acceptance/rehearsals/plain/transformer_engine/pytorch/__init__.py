"""Layers with the arguments of Transformer Engine's."""

from . import attention, distributed, module
from .attention import DotProductAttention
from .fp8 import fp8_autocast, fp8_model_init
from .module import GroupedLinear, LayerNorm, LayerNormLinear, Linear, RMSNorm

__all__ = [
    "DotProductAttention",
    "GroupedLinear",
    "LayerNorm",
    "LayerNormLinear",
    "Linear",
    "RMSNorm",
    "attention",
    "distributed",
    "fp8_autocast",
    "fp8_model_init",
    "module",
]
