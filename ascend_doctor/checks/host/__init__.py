"""Checks of the host that the NPUs are in."""
