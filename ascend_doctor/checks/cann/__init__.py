"""Checks of CANN and its operators."""
