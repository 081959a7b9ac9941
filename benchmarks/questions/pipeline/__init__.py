"""Questions about the pipeline on Spark: merges, bases, the data source as source, sink and stream."""
