"""Checks of what probes measured."""
