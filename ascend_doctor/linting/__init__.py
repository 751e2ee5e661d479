"""Launches as people have them: shell scripts, configurations, pods, Python entry files."""
