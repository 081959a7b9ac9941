"""Spark's event logs: finding them, reading their lines, and recording them in a store."""
