"""A small daily application without a line about kvwal: the orders of a day, cleaned, and summed by product.

    spark-submit examples/orders.py DAY

It writes to Spark's warehouse. On the 19th of a month an amount is delivered that is no number, and the application fails.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

PRODUCTS = ("apples", "bread", "coffee", "dates")
ORDERS = 1_000


def main(day: str) -> int:
    """Run the application for one day. Raises what Spark raises when an amount is no number."""
    spark = SparkSession.builder.appName("daily orders").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    warehouse = spark.conf.get("spark.sql.warehouse.dir").rstrip("/")
    deliver(spark, day).write.mode("overwrite").csv(f"{warehouse}/delivered/{day}")
    spark.sparkContext.setJobDescription(f"clean the orders of {day}")
    delivered = spark.read.schema("number int, product string, amount string").csv(f"{warehouse}/delivered/{day}")
    orders = delivered.withColumn("amount", f.col("amount").cast("decimal(10,2)"))
    orders.write.mode("overwrite").parquet(f"{warehouse}/orders/day={day}")
    spark.sparkContext.setJobDescription(f"revenue of {day}")
    cleaned = spark.read.parquet(f"{warehouse}/orders/day={day}")
    revenue = cleaned.groupBy("product").agg(f.count("*").alias("orders"), f.sum("amount").alias("revenue"))
    revenue.write.mode("overwrite").parquet(f"{warehouse}/revenue/day={day}")
    spark.stop()
    return 0


def deliver(spark: SparkSession, day: str) -> DataFrame:
    """The orders of a day as they are delivered: every amount is text."""
    spark.sparkContext.setJobDescription(f"delivery of {day}")
    numbers = spark.range(0, ORDERS, 1, 2).withColumnRenamed("id", "number")
    product = f.element_at(f.array(*map(f.lit, PRODUCTS)), (f.col("number") % len(PRODUCTS) + 1).cast("int"))
    amount = (f.col("number") % 90 + 10).cast("string")
    wrong = f.lit(day.endswith("-19")) & (f.col("number") == 700)
    return numbers.select("number", product, f.when(wrong, f.lit("12 euros")).otherwise(amount))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
