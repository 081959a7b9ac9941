"""The sink `kvwal` of Spark: DataFrames and streams written into a store."""
