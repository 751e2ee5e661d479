"""Recipes of FP8, of which the CPU has none."""


class Format:
    E4M3 = HYBRID = None


class DelayedScaling:
    """Megatron asks whether a recipe is this."""
