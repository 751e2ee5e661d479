"""Checks of the same subject that read what probes answered."""
