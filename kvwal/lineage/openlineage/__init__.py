"""OpenLineage: its events checked and stored, the runs that they tell of, and Spark's records written as events."""
