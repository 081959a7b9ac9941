"""Readers of foreign logs, on logs that the real libraries wrote: they find what the libraries give back."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from kvwal.importers.flume.folders import log_paths
from kvwal.importers.nifi.folders import repository
from kvwal.importers.nifi.replay import RepositoryReplay
from kvwal.importers.seatunnel.folders import business_logs
from kvwal.importers.seatunnel.latest import LatestRecords
from kvwal.ports.disk import OS_DISK
from tests.support.java.golden_logs import Found, expected, flume, java_text, nifi, nifi_line, seatunnel
from tests.support.java.logs import GOLDEN

CLUSTER = GOLDEN / "seatunnel" / "cluster"
JAVA_TYPES = {
    "java.lang.String": str,
    "java.lang.Character": str,
    "java.lang.Boolean": bool,
    "java.lang.Byte": int,
    "java.lang.Short": int,
    "java.lang.Integer": int,
    "java.lang.Long": int,
    "java.lang.Float": float,
    "java.lang.Double": float,
}


def test_seatunnel_gives_the_latest_value_of_each_key_with_its_type() -> None:
    found = Found()
    values = seatunnel(CLUSTER, found)
    assert found.nothing, found
    lines = expected(GOLDEN / "seatunnel")
    assert len(values) == len(lines) > 10
    for line in lines:
        kind = JAVA_TYPES[line["key_class"]]
        ((key, value),) = [
            (key, value) for (type_, key), value in values.items() if type_ is kind and java_text(key) == line["key"]
        ]
        assert type(key) is kind
        if line["value_class"] not in JAVA_TYPES:
            assert type(value) is bytes, line
            continue
        assert type(value) is JAVA_TYPES[line["value_class"]], line
        if line["value_class"] == "java.lang.Float":
            assert value == struct.unpack("f", struct.pack("f", float(line["value"])))[0]
        elif type(value) is float:
            assert value == float(line["value"])
        else:
            assert java_text(value) == line["value"]


def test_objects_of_other_classes_stay_bytes_and_are_counted() -> None:
    (log,) = business_logs(OS_DISK, CLUSTER)
    latest = LatestRecords(OS_DISK, log, Found())
    assert sum(1 for _ in latest.entries()) > 10
    assert latest.kept_as_bytes == {"logs.SeaTunnelLog$Job": 1, "java.util.ArrayList": 1}
    assert not latest.same_keys


def test_flume_gives_the_committed_events_that_were_not_taken_in_their_order() -> None:
    found = Found()
    assert flume(GOLDEN / "flume", found) == expected(GOLDEN / "flume")
    assert found.nothing, found
    assert len({log.path.parent for log in log_paths(OS_DISK, GOLDEN / "flume")}) == 2


@pytest.mark.parametrize("log", ["nifi-sequential", "nifi-minimal"])
def test_nifi_gives_the_latest_state_of_each_record(log: str) -> None:
    found = Found()
    records = nifi(GOLDEN / log, found)
    assert found.nothing, found
    lines = {line["id"]: line for line in expected(GOLDEN / log)}
    assert {record for _, record in records} == lines.keys()
    for (_, record), value in records.items():
        assert nifi_line(record, value) == lines[record]


@pytest.mark.parametrize("log", ["nifi-sequential", "nifi-minimal"])
def test_nifi_names_the_swap_files(log: str) -> None:
    replay = RepositoryReplay(OS_DISK, repository(OS_DISK, GOLDEN / log), Found())
    assert replay.swap_files == {"swap/1-queue.swap"}


def test_a_snapshot_that_is_not_finished_counts_only_if_there_is_no_other(tmp_path: Path) -> None:
    """As for NiFi: a crash in a checkpoint leaves both, or the new one alone."""
    whole = nifi(GOLDEN / "nifi-sequential", Found())
    copy = tmp_path / "repository"
    shutil.copytree(GOLDEN / "nifi-sequential", copy)
    (copy / "checkpoint.partial").write_bytes(b"\x00")
    assert nifi(copy, Found()) == whole
    (copy / "checkpoint").rename(copy / "checkpoint.partial")
    assert nifi(copy, Found()) == whole
