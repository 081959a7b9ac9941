"""A log that is read on by a new reader, or that was written anew, shrank, or was renamed: each event counts once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.eventlog import lines
from kvwal.spark.eventlog.lines import Lines
from tests.support.event_logs import CODECS, SUFFIXES, TASKS, compressed, counts, event_log, write_rolling


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        yield store


class Counted:
    """A file whose reads are counted."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.reads: list[tuple[int, int]] = []
        self._path = path

    def open(self, mode: Any = "rb", /) -> Any:
        reads, file = self.reads, self._path.open("rb")

        class File:
            seek, tell, close = file.seek, file.tell, file.close

            def read(self, size: int) -> bytes:
                begin = file.tell()
                data = file.read(size)
                reads.append((begin, len(data)))
                return data

        return File()


def test_a_new_reader_of_a_plain_log_begins_at_the_line_that_was_read_last(
    store: kvwal.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "app-1.inprogress"
    log.write_bytes(event_log("app-1", 300, ended=False))
    record_event_logs(store, [log])
    position = store.map("spark")["app-1/log"]
    before = log.stat().st_size
    log.write_bytes(event_log("app-1", 301, ended=False))
    opened: list[int] = []
    begin = Lines.__init__

    def noted(self: Lines, path: Any, start: int = 0) -> None:
        opened.append(start)
        begin(self, path, start)

    monkeypatch.setattr(Lines, "__init__", noted)
    record_event_logs(store, [log])
    assert before - 1_000 < position["offset"] < before
    assert opened[-1] == position["offset"]
    assert counts(store.map("spark"), "app-1") == ("RUNNING", 301, 301 * TASKS, 301)


@pytest.mark.parametrize("codec", CODECS)
def test_a_log_that_is_cut_anywhere_and_grows_again_counts_once(
    store: kvwal.Store, tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK", 3_000)
    whole = compressed(event_log("app-1", 100), codec)
    log = tmp_path / f"app-1{SUFFIXES[codec]}.inprogress"
    for share in (0.4, 0.7, 0.2, 0.9, 0.05, 1):
        log.write_bytes(whole[: int(len(whole) * share)])
        record_event_logs(store, [log])
    finished = log.rename(log.with_name(log.name.removesuffix(".inprogress")))
    (read,) = record_event_logs(store, [finished])
    assert read.complete
    assert not read.problem
    assert counts(store.map("spark"), "app-1") == ("SUCCEEDED", 100, 100 * TASKS, 100)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("jobs", [2, 40, 90])
def test_a_log_that_was_written_anew_is_read_from_its_start(
    store: kvwal.Store, tmp_path: Path, codec: str, jobs: int
) -> None:
    """It was read from the line number of the old one on: what stood before was lost."""
    log = tmp_path / f"app-1{SUFFIXES[codec]}.inprogress"
    log.write_bytes(compressed(event_log("app-1", 40, ended=False), codec))
    record_event_logs(store, [log])
    log.write_bytes(compressed(event_log("app-1", jobs, first=1_000, name="anew", ended=False), codec))
    record_event_logs(store, [log])
    records = store.map("spark")
    assert counts(records, "app-1") == ("RUNNING", 40 + jobs, (40 + jobs) * TASKS, 40 + jobs)


def test_a_copy_of_a_log_in_another_codec_counts_once(store: kvwal.Store, tmp_path: Path) -> None:
    text = event_log("app-1", 30)
    logs = []
    for codec in CODECS:
        path = tmp_path / f"app-1{SUFFIXES[codec]}"
        path.write_bytes(compressed(text, codec))
        logs.append(path)
    reads = record_event_logs(store, logs)
    assert [read.events for read in reads] == [text.count(b"\n"), *[0] * (len(CODECS) - 1)]
    assert counts(store.map("spark"), "app-1") == ("SUCCEEDED", 30, 30 * TASKS, 30)


def test_two_logs_of_one_application_with_different_events_are_both_read(store: kvwal.Store, tmp_path: Path) -> None:
    """The second one was left out, because the position said that the application's log was read to its end."""
    (tmp_path / "one").write_bytes(event_log("app-1", 10))
    (tmp_path / "two").write_bytes(event_log("app-1", 12, first=5))
    for _ in range(2):
        record_event_logs(store, [tmp_path / "one", tmp_path / "two"])
        assert counts(store.map("spark"), "app-1") == ("SUCCEEDED", 17, 17 * TASKS, 17)


@pytest.mark.parametrize("rolling_first", [True, False])
def test_a_rolling_log_and_a_plain_one_of_one_application_are_both_read(
    store: kvwal.Store, tmp_path: Path, rolling_first: bool
) -> None:
    """The plain one was left out, because it has no roll as high as the position's."""
    rolling = write_rolling(tmp_path, "app-1", [event_log("app-1", 10)], in_progress=False)
    (tmp_path / "plain").write_bytes(event_log("app-1", 12, first=5))
    logs = [rolling, tmp_path / "plain"] if rolling_first else [tmp_path / "plain", rolling]
    for _ in range(2):
        record_event_logs(store, logs)
        assert counts(store.map("spark"), "app-1") == ("SUCCEEDED", 17, 17 * TASKS, 17)


@pytest.mark.parametrize("at", [0, 100, 5_000])
def test_lines_go_on_in_the_renamed_file_and_refuse_another_one(tmp_path: Path, at: int) -> None:
    text = event_log("app-1", 30)
    first, second = tmp_path / "log.inprogress", tmp_path / "log"
    first.write_bytes(text[:at])
    reader = Lines(first)
    found = reader.more() or []
    first.unlink()
    second.write_bytes(text)
    counted = Counted(second)
    assert reader.move_to(counted)
    while (more := reader.more()) is not None:
        found += more
    assert found == text.splitlines()
    assert min(begin for begin, _ in counted.reads) >= at - 256
    second.write_bytes(event_log("app-1", 30, first=500))
    assert not reader.move_to(second)
    second.write_bytes(text[: len(text) // 2])
    assert not reader.move_to(second)
    reader.close()


def test_a_line_that_is_too_long_does_not_shift_where_reading_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10_000)
    monkeypatch.setattr(lines, "CHUNK", 1_000)
    text = b"short\n" + b"y" * 100_000 + b"\nnext\nlast\n"
    (tmp_path / "log").write_bytes(text)
    reader = Lines(tmp_path / "log")
    seen = []
    while (more := reader.more()) is not None:
        if more:
            assert reader.last_line is not None
            seen.append(text[reader.last_line :].split(b"\n")[0][:5])
    reader.close()
    assert seen[-1] == b"last"
    assert seen[:-1] in ([b"short"], [b"short", b"yyyyy"])


def test_events_of_a_newer_spark_are_counted_as_lines_and_change_nothing(store: kvwal.Store, tmp_path: Path) -> None:
    text = event_log("app-1", 3)
    start, rest = text.split(b"\n", 1)
    unknown = b'{"Event":"SparkListenerOfTheFuture","Timestamp":1,"New":{"a":[1]}}\n'
    (tmp_path / "app-1").write_bytes(start + b"\n" + unknown + rest[:-1] + b"\n" + unknown)
    (read,) = record_event_logs(store, [tmp_path / "app-1"])
    assert (read.damaged, read.problem, read.complete) == (0, "", True)
    assert store.map("spark")["app-1/log"]["events"] == text.count(b"\n") + 2
    assert counts(store.map("spark"), "app-1") == ("SUCCEEDED", 3, 3 * TASKS, 3)
