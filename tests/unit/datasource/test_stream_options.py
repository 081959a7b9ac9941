"""A stream says which option is wrong, where it cannot begin, and which changes are gone, before a row is read."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import kvwal
from kvwal.errors import ArchiveGap, BeforeHistory, ConfigError
from kvwal.hlc import to_timestamp
from kvwal.ports.clock import SYSTEM
from kvwal.spark.datasource.source import SCHEMA, KvwalSource
from kvwal.spark.datasource.stream_reader import ChangesReader
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from tests.support.log.store import open_with_archiver


def reader(**options: str) -> ChangesReader:
    source = KvwalSource({"business": "jobs", **options})
    source.schema()
    made = source.streamReader(SCHEMA)
    assert isinstance(made, ChangesReader)
    return made


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("after", "soon", "the option 'after' is 'soon'"),
        ("after", "12", "12 is no timestamp of kvwal"),
        ("after", '{"n": "x"}', "is no position of a watch"),
        ("maxRowsPerTrigger", "0", "the option 'maxRowsPerTrigger' is '0'"),
        ("maxBytesPerTrigger", "1k", "the option 'maxBytesPerTrigger' is '1k'"),
        ("view", "latest", "a stream of format kvwal has every change"),
        ("store", "kvwal://host:5701", "the members of a cluster read its archive themselves"),
        ("wrong", "1", "format kvwal has no option 'wrong'"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, option: str, value: str, sentence: str) -> None:
    options = {"archive": str(tmp_path), "business": "jobs", option: value}
    with pytest.raises(ConfigError, match=sentence):
        KvwalSource(options).streamReader(SCHEMA)


def test_a_batch_read_refuses_the_options_of_a_stream(tmp_path: Path) -> None:
    options = {"archive": str(tmp_path), "business": "jobs", "after": "2020-01-01"}
    with pytest.raises(ConfigError, match="format kvwal has no option 'after'"):
        KvwalSource(options).reader(SCHEMA)


def test_the_limits_are_told_to_spark(tmp_path: Path) -> None:
    archive = str(tmp_path)
    assert reader(archive=archive).getDefaultReadLimit() == ReadAllAvailable()
    assert reader(archive=archive, maxRowsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(archive=archive, maxBytesPerTrigger="7").getDefaultReadLimit() == ReadMaxBytes(7)


def test_a_business_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no map 'jobs' in default/local"):
        reader(archive=str(tmp_path)).initialOffset()


def test_a_start_before_the_history_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with open_with_archiver(tmp_path / "root", archive) as store:
        jobs = store.map("jobs")
        first = jobs.put("a", 1)
        jobs["a"] = 2
        last = jobs.put("a", 3)
        store.archive()
        place = Place("default", "local", "jobs", "local")
        compaction.rewrite(open_objects(str(archive)), place, now_ms=SYSTEM.wall_ms() + 1000, history_ms=0, force=True)
        with pytest.raises(BeforeHistory, match="only the latest entry of each key was kept"):
            reader(archive=str(archive), after=str(first)).initialOffset()
        at_end = {"local": {"sequence": 3, "thinned": 0, "since": last}}
        assert reader(store=str(tmp_path / "root"), archive=str(archive), after=str(last)).initialOffset() == at_end


def test_a_start_without_a_zone_is_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs")["a"] = 1
        for zone in ("Asia/Kolkata", "America/New_York"):
            with monkeypatch.context() as changed:
                changed.setenv("TZ", zone)
                time.tzset()
                starts += [
                    reader(store=str(tmp_path), after=f"2025-11-02T01:30:00{of}").initialOffset() for of in ("", "Z")
                ]
            time.tzset()
    assert starts == [starts[0]] * 4
    assert starts[0]["local"]["since"] == to_timestamp(datetime(2025, 11, 2, 1, 30, tzinfo=UTC))


def test_without_an_archive_the_history_ends_at_the_last_checkpoint(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        early = reader(store=str(tmp_path))
        start = early.initialOffset()
        store.checkpoint()
        jobs["b"] = 2
        with pytest.raises(BeforeHistory, match="the changes before sequence 2 are in no archive"):
            reader(store=str(tmp_path)).initialOffset()
        end = early.latestOffset(start, ReadAllAvailable())
        with pytest.raises(ArchiveGap, match="sequences 1–1 are neither in the log nor in the archive"):
            [batch for partition in early.partitions(start, end) for batch in early.read(partition)]


def test_what_is_available_is_fixed_when_the_trigger_is_available_now(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        stream = reader(store=str(tmp_path))
        start = stream.initialOffset()
        stream.prepareForTriggerAvailableNow()
        jobs["b"] = 2
        end = stream.latestOffset(start, ReadAllAvailable())
        assert end == {"local": {"sequence": 1, "thinned": 0}}
        assert stream.latestOffset(end, ReadAllAvailable()) == end
        assert stream.reportLatestOffset() == {"local": {"sequence": 2, "thinned": 0}}


@pytest.mark.parametrize("now", [True, False])
def test_an_offset_of_another_log_is_refused(tmp_path: Path, now: bool) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        store.map("jobs").put_many({"a": 1, "b": 2})
        for sequence in (2, 3):
            stream = reader(store=str(tmp_path))
            if now:
                stream.prepareForTriggerAvailableNow()
            offset = {"local": {"sequence": sequence, "thinned": 0}}
            if sequence == 2:
                assert stream.latestOffset(offset, ReadAllAvailable()) == offset
                continue
            with pytest.raises(ConfigError, match="the stream's offset is sequence 3, and the log ends with 2"):
                stream.latestOffset(offset, ReadAllAvailable())


def test_a_node_that_is_gone_since_the_batch_was_planned_is_a_gap(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        store.map("jobs")["a"] = 1
        stream = reader(store=str(tmp_path))
        with pytest.raises(
            ArchiveGap, match="default/local/jobs/gone: the changes of sequences 3–5 are neither in the log nor"
        ):
            stream.partitions(
                {"gone": {"sequence": 2, "thinned": 0}},
                {"gone": {"sequence": 5, "thinned": 0}, **stream.initialOffset()},
            )


def test_a_limit_of_bytes_where_the_next_changes_are_gone_is_a_gap(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        stream = reader(store=str(tmp_path), maxBytesPerTrigger="10")
        start = stream.initialOffset()
        store.checkpoint()
        jobs["b"] = 2
        with pytest.raises(ArchiveGap, match="sequences 1–1 are neither in the log nor in the archive"):
            stream.latestOffset(start, stream.getDefaultReadLimit())


def test_a_missing_business_is_told_without_the_secret_of_the_archive() -> None:
    with pytest.raises(ConfigError, match="there is no map 'jobs'") as caught:
        reader(archive="memory://user:hunter2@nothing-streamed").initialOffset()
    assert "hunter2" not in str(caught.value)
