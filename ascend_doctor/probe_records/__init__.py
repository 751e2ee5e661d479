"""What each probe measures on a rank: one struct a probe, named after the keys that it writes."""
