"""A launch made small by rule: the same kinds of parallelism and layers, on few ranks."""
