"""Two machines, or one machine twice, compared."""
