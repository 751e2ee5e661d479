"""The collectors, one module a subject: ``parse_...`` takes text, the collector a Machine."""
