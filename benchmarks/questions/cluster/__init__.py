"""Questions on a cluster of nodes."""
