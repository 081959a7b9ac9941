"""Lineage: the graph of data sets over all applications, from Spark's records and from OpenLineage's events."""
