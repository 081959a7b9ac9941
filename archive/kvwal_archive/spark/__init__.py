"""Reads and maintenance of the archive on Spark. pyspark is needed where a session is given, and not to import this package."""

from kvwal_archive.spark.bases import base
from kvwal_archive.spark.frames import history, merge
from kvwal_archive.spark.maintenance import gc, rewrite, verify
from kvwal_archive.spark.restore import restore

__all__ = ["base", "gc", "history", "merge", "restore", "rewrite", "verify"]
