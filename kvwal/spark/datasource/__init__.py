"""The data source `kvwal` of Spark: reads of an archive as DataFrames."""
