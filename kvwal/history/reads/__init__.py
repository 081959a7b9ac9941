"""Reads of logs without their lock, and of logs and archive together: one key, a range of keys, a scan, the timeline."""
