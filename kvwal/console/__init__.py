"""The HTTP server of `kvwal console`: OpenLineage's events are taken at POST /api/v1/lineage."""
