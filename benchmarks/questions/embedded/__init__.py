"""Questions on one store in one process."""
