"""Many machines as one: merged reports, drift, outliers."""
