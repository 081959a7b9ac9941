"""Reads of the archive on Spark. pyspark is needed where a session is given, and not to import this package."""

from archive.spark.frames import history, merge

__all__ = ["history", "merge"]
