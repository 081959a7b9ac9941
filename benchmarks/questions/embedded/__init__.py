"""Questions about one store in one process."""
