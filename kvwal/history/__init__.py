"""Everything that reads logs and archive without the lock of a log: reads, change feeds, and restores."""
