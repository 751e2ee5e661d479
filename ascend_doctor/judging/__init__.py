"""Facts into findings: what a check sees, and what several checks need."""
