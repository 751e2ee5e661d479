"""Parallel layouts for a model: which are legal, what they need, how to ask for them."""
