"""Checks of a launch: its options, sizes, exports and entry file."""
