"""The formats of a report, one module a format."""
