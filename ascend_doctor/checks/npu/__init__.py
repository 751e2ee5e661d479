"""Checks of NPUs, their driver and who uses them."""
