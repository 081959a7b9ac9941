"""The REST API of kvwal at /api/kvwal/v1: what Spark's has no word for. Businesses, keys, history, SQL, contents, lineage."""
