"""Questions on the recording of Spark metadata."""
