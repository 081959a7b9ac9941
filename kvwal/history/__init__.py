"""History: readers of logs, the earlier entries of a key, and the restore from an archive."""
