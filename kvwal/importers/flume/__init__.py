"""Flume's file channel: its folders, its records, and the replay that leaves the events of its queue."""
