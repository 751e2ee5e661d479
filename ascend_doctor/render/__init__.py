"""How reports, logs and layouts look."""
