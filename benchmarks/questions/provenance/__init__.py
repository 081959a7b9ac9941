"""Questions about provenance: what it costs, and how fast it answers."""
