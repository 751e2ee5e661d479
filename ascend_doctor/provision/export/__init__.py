"""A lock in the formats of other tools."""
