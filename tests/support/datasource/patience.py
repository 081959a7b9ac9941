"""Queries that read a stream of kvwal, on a machine that is busy."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException


def patiently(run: Callable[[], object]) -> None:
    """Run a query, again from its checkpoint if a busy machine did not start Spark's Python within Spark's ten seconds."""
    while True:
        try:
            run()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return
