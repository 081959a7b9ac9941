"""The Parquet side of an object: rows, columns and checksums."""
