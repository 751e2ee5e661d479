"""Keeps the matrix true: what repositories and indexes have by now, and what a release changes."""
