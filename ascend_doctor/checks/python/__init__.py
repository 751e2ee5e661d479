"""Checks of the examined Python, torch and torch_npu."""
