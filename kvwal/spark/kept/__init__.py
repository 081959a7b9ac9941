"""Kept event logs: whole logs as content, with an index of each stage's task events."""
