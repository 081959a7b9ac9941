"""The orders that the examples of this folder count, and the session and the store that they use."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import kvwal

PRODUCTS = ("apples", "bread", "coffee", "dates")
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
    "spark.sql.shuffle.partitions": "2",
}


def session(name: str) -> SparkSession:
    """A session on this machine. Under spark-submit, its options say where it runs."""
    builder = SparkSession.builder.appName(name)
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def open_store(location: str, cluster: str) -> Any:
    """The store at a location: a folder, or `kvwal://host:port` for a cluster of this name."""
    if location.startswith("kvwal://"):
        return kvwal.connect(location.removeprefix("kvwal://"), cluster=cluster)
    return kvwal.open(location, cluster=cluster)


def orders(spark: SparkSession, begin: int, end: int) -> DataFrame:
    """The orders with these numbers: product, amount, and the second of the order. Every tenth comes a minute late."""
    number = f.col("number")
    product = f.element_at(f.array(*map(f.lit, PRODUCTS)), (number % len(PRODUCTS) + 1).cast("int"))
    second = number - f.when(number % 10 == 9, 60).otherwise(0)
    return (
        spark.range(begin, end, 1, 2).withColumnRenamed("id", "number")
        .select("number", product.alias("product"), (number % 90 + 10).alias("amount"), second.alias("second"))
    )  # fmt: skip
