"""Questions about a cluster of nodes."""
