"""The parts of a launch: its processes, its output, its records."""
