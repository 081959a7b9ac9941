"""Questions about recording Spark."""
