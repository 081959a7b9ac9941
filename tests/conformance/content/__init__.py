"""Contents, on an embedded store and on a cluster."""
