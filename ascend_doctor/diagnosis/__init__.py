"""Logs against the catalogue of known failures: the root cause, and which rank is guilty."""
