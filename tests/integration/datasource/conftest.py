"""The session of Spark that the tests of a module share, with the data source `kvwal` registered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import kvwal.spark
from tests.support.spark import session


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    spark = session(request.module.__name__.rpartition(".")[2])
    kvwal.spark.register(spark)
    yield spark
    spark.stop()
