"""Ranges of a log's entries, read from its files again while the log is open."""
