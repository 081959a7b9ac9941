"""What was: readers of logs, the past of a key, and the restore from an archive."""
