"""Spark's REST API at /api/v1, answered from records and kept event logs: same paths, parameters, names and units."""
