"""Checks of the training stack: Megatron-LM, MindSpeed and frameworks."""
