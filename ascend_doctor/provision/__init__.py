"""From a wanted stack to an environment that has it."""
