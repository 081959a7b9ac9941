"""The flights of the examples, recorded: their lineage, and their export by OpenLineage's published schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.source import ROOT
from tests.support.cli import kvwal as command
from tests.support.lineage.published import faults
from tests.support.spark import environment


@pytest.mark.long
def test_the_flights_show_their_lineage_and_their_export_is_valid(tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/flights/app.py"), str(data), "--work", str(work)],
        env=environment(ROOT), capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-4_000:]
    shown = command("lineage", data, work / "flights", "--json")
    assert shown.code == 0, shown.err
    told = json.loads(shown.out)
    assert [each["dataset"] for each in told["up"]] == [f"file://{work}/raw/flights.csv"]
    assert {each["dataset"].rpartition("/")[2] for each in told["down"]} == {
        "delays_by_carrier", "planes_by_maker", "weather", "worst_days"
    }  # fmt: skip
    exported = command("export", "openlineage", data)
    assert exported.code == 0, exported.err
    events = [json.loads(line) for line in exported.out.splitlines()]
    assert [(each["job"]["name"], faulty) for each in events if (faulty := faults(each))] == []
    assert {"START", "COMPLETE", "FAIL"} <= {each["eventType"] for each in events}
