"""The compatibility matrix: its shape, its loading, and what is asked of it."""
