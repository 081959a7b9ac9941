"""The records of Spark applications as tables with typed columns."""
