"""The checks, one module a subject. They see a Case and nothing else."""
