"""The data source and the archive's functions in a session of Spark Connect, whose client has no JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvwal
from kvwal.spark.state.records import PREFIX
from tests.support.datasource.drivers import drive

KEYS = 100


@pytest.mark.long
def test_a_client_of_spark_connect_can_do_what_a_driver_can(tmp_path: Path) -> None:
    values = {f"job-{number}": {"ms": number, "state": "ok"} for number in range(KEYS)}
    with kvwal.open(tmp_path / "store") as store:
        for part in (slice(None, 50), slice(50, None)):
            store.map("jobs").put_many(dict(list(values.items())[part]))
            store.archive()
    client = drive("connect", tmp_path, tmp_path)
    assert client.returncode == 0, client.stderr[-3000:]
    assert json.loads(client.stdout.splitlines()[-1]) == {
        "one key": [["job-7", '{"ms":7,"state":"ok"}']], "typed": [["job-98", 98], ["job-99", 99]],
        "view": KEYS, "merge": KEYS, "base": KEYS, "rewrite": 1, "verify": [], "restore": {"jobs": KEYS},
    }  # fmt: skip
    with kvwal.open(tmp_path / "copy", archive=None) as copy:
        for business in ("batch", "stream"):
            rows = {key: row for key, row in copy.map(business).items() if not key.startswith(PREFIX)}
            assert rows == {key: {"ms": row["ms"]} for key, row in values.items()}
