"""Transformer Engine's layers in plain torch, for jobs of which the CPU shall tell the losses.

Its wheels are CUDA's. Names, arguments and shapes are those that megatron.core's
``extensions/transformer_engine.py`` gives and takes (core_v0.12.1 and core_v0.15.3); what is
computed is what they mean, written for no device. Megatron asks for nothing newer of 1.12.
"""

from . import common, pytorch

__version__ = "1.12.0"
__all__ = ["common", "pytorch"]
