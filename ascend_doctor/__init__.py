"""Environment doctor and provisioning tool for Megatron-LM + MindSpeed training on Ascend NPUs."""

__version__ = "0.1.0"
