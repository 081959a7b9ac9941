"""Event logs of Spark: found, read line by line, and projected into the store."""
