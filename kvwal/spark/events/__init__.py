"""Spark's listener events as types, one module for each subject, and the parser of one line of an event log."""
