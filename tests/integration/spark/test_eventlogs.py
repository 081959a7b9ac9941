"""Event logs that Spark wrote, read in every format, in pieces, damaged, renamed and compacted: each event counts once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError
from kvwal.spark import record_event_logs
from kvwal.spark.eventlog import lines, log_reader
from kvwal.spark.eventlog.log_reader import LogReader
from kvwal.spark.eventlog.logs import find_logs, identify
from tests.support.cli import kvwal as command
from tests.support.spark import LARGE_JOBS, Written, comparable
from tests.support.spark_records import DyingMap, Killed

Values = dict[str, dict[str, Any]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    """An empty store without an archive."""
    with kvwal.open(tmp_path / "store", node="reader", archive=None, flush="os") as store:
        yield store


def recorded(store: kvwal.Store, *, positions: bool = False) -> Values:
    """What the store has, with or without how far each log was read."""
    found = dict(store.map("spark").items())
    return {key: value for key, value in found.items() if positions or value["kind"] not in ("log", "index")}


def in_one_go(tmp_path: Path, log: Path) -> Values:
    """What reading a log from its beginning to its end, once, gives."""
    with kvwal.open(tmp_path / "once", archive=None, flush="os") as store:
        record_event_logs(store, [log])
        return recorded(store)


def of(values: Values, kind: str) -> list[dict[str, Any]]:
    return [value for value in values.values() if value["kind"] == kind]


def test_a_log_tells_of_jobs_stages_sql_and_streams(store: kvwal.Store, written: Written) -> None:
    (read,) = record_event_logs(store, [written.plain])
    values = recorded(store)
    app = values[f"{written.app}/app"]
    assert read.complete
    assert not read.problem
    assert (app["name"], app["status"], app["jobs_failed"]) == ("first", "SUCCEEDED", 1)
    assert app["jobs"] == len(of(values, "job"))
    assert (
        app["tasks"]
        == sum(stage["tasks"] for stage in of(values, "stage"))
        == sum(job["tasks"] for job in of(values, "job"))
    )
    write = next(sql for sql in of(values, "sql") if sql["description"] == "write numbers")
    assert [(a["what"], a["rows"], a["files"]) for a in write["writes"]] == [("parquet", 20_000, 4)]
    join = next(sql for sql in of(values, "sql") if sql["description"] == "join and sum")
    assert ("parquet", 20_000) in [(a["what"], a["rows"]) for a in join["reads"]]
    assert [(a["what"], a["rows"]) for a in join["writes"]] == [("json", 10)]
    assert "HashAggregate" in join["plan"]
    stream = of(values, "stream")[0]
    assert (stream["name"], stream["status"], stream["input_rows"]) == ("counts", "SUCCEEDED", 20_000)
    assert [batch["batch"] for batch in of(values, "batch")] == list(range(stream["batches"]))


def test_a_failure_has_the_message_and_the_stack(store: kvwal.Store, written: Written) -> None:
    record_event_logs(store, [written.plain])
    values = recorded(store)
    (job,) = [job for job in of(values, "job") if job["status"] == "FAILED"]
    (stage,) = [stage for stage in of(values, "stage") if stage["status"] == "FAILED"]
    assert job["description"] == "fails on purpose"
    assert "ZeroDivisionError" in job["error"]["message"]
    assert "org.apache.spark" in job["error"]["stack"]
    assert "ZeroDivisionError" in stage["failures"][0]["message"]
    assert stage["failures"][0]["count"] == stage["failed"] > 0


def test_the_slow_task_shows_as_skew(store: kvwal.Store, written: Written) -> None:
    record_event_logs(store, [written.plain])
    values = recorded(store)
    (job,) = [job for job in of(values, "job") if job["description"] == "one slow task"]
    stage = max((stage for stage in of(values, "stage") if stage["job"] == job["id"]), key=lambda stage: stage["tasks"])
    assert stage["tasks"] == 8
    assert (
        stage["slowest"]["ms"]
        == stage["task_max_ms"]
        >= stage["task_p95_ms"]
        >= stage["task_median_ms"]
        >= stage["task_min_ms"]
    )
    assert stage["skew"] == round(stage["task_max_ms"] / max(1, stage["task_median_ms"]), 2)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy"])
def test_every_codec_tells_the_same(store: kvwal.Store, tmp_path: Path, written: Written, codec: str) -> None:
    (read,) = record_event_logs(store, [written.compressed[codec]])
    assert read.complete
    ours, plain = recorded(store), in_one_go(tmp_path, written.plain)
    for kind in ("job", "stage", "sql", "stream", "batch"):
        assert comparable(ours, kind) == comparable(plain, kind)


def test_a_codec_that_cannot_be_read_says_so_and_stops_no_other(store: kvwal.Store, written: Written) -> None:
    bad, good = record_event_logs(store, [written.compressed["lzf"], written.plain])
    assert "lzf" in bad.problem
    assert good.complete


@pytest.mark.parametrize("form", ["plain", "zstd", "lz4", "rolling"])
def test_killed_at_every_transaction_each_event_counts_once(
    store: kvwal.Store, tmp_path: Path, written: Written, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = {"plain": written.plain, "rolling": written.rolled, **written.compressed}[form]
    monkeypatch.setattr(log_reader, "MAX_PENDING", 60_000)
    monkeypatch.setattr(log_reader, "MAX_BYTES", 60_000)
    monkeypatch.setattr(lines, "CHUNK", 1 << 20 if form == "rolling" else 4_096)
    (log,) = find_logs([path])
    identity = identify(log)
    assert identity is not None
    dying = DyingMap(store.map("spark"))
    alive = False
    while not alive:
        reader = LogReader(dying, log, identity)
        try:
            reader.advance()
            alive = True
        except Killed:
            pass
        finally:
            reader.close()
    assert dying.kills >= 10
    assert recorded(store) == in_one_go(tmp_path, path)


def test_a_running_log_is_read_on_as_it_grows_and_is_renamed(
    store: kvwal.Store, tmp_path: Path, written: Written
) -> None:
    whole = written.plain.read_bytes()
    running = tmp_path / f"{written.plain.name}.inprogress"
    events = 0
    for share in (0.3, 0.5, 0.500_01, 0.9):
        running.write_bytes(whole[: int(len(whole) * share)])
        (read,) = record_event_logs(store, [running])
        events += read.events
        assert not read.damaged
        assert not read.complete
    assert recorded(store)[f"{written.app}/app"]["status"] == "RUNNING"
    running.write_bytes(whole)
    finished = running.rename(tmp_path / written.plain.name)
    (read,) = record_event_logs(store, [finished])
    assert read.complete
    assert events + read.events == whole.count(b"\n")
    assert recorded(store) == in_one_go(tmp_path, written.plain)
    assert record_event_logs(store, [finished])[0].events == 0


def test_one_reader_follows_a_log_that_grows(store: kvwal.Store, tmp_path: Path, written: Written) -> None:
    whole = written.plain.read_bytes()
    running = tmp_path / f"{written.plain.name}.inprogress"
    running.write_bytes(whole[:200_000])
    (log,) = find_logs([running])
    identity = identify(log)
    assert identity is not None
    reader = LogReader(store.map("spark"), log, identity)
    for end in range(200_000, len(whole) + 50_000, 50_000):
        running.write_bytes(whole[:end])
        reader.advance()
    running.rename(tmp_path / written.plain.name)
    reader.advance()
    reader.close()
    assert reader.projection.position.complete
    assert recorded(store) == in_one_go(tmp_path, written.plain)


def test_a_damaged_line_is_kept_aside_and_the_rest_is_read(
    store: kvwal.Store, tmp_path: Path, written: Written
) -> None:
    whole = written.plain.read_bytes().split(b"\n")
    hurt = next(number for number, line in enumerate(whole) if b"SparkListenerTaskEnd" in line)
    log = tmp_path / written.plain.name
    log.write_bytes(b"\n".join([*whole[:hurt], whole[hurt][:700], b"\xff\xfe not even text", *whole[hurt + 1 :]]))
    (read,) = record_event_logs(store, [log])
    values = recorded(store)
    assert (read.damaged, read.complete, values[f"{written.app}/app"]["damaged"]) == (2, True, 2)
    kept = of(values, "damage")
    assert [damage["event"] for damage in kept] == [hurt + 1, hurt + 2]
    assert kept[0]["text"] == whole[hurt][:700].decode()
    assert kept[0]["problem"]
    once = in_one_go(tmp_path, written.plain)
    assert len(of(values, "job")) == len(of(once, "job"))
    assert sum(job["tasks"] for job in of(values, "job")) == sum(job["tasks"] for job in of(once, "job")) - 1


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy"])
def test_a_damaged_compressed_log_is_read_up_to_the_damage(
    store: kvwal.Store, tmp_path: Path, written: Written, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK", 8_192)
    bytes_of = bytearray(written.compressed[codec].read_bytes())
    middle = len(bytes_of) // 2
    bytes_of[middle : middle + 64_000] = bytes(64_000)
    log = tmp_path / written.compressed[codec].name
    log.write_bytes(bytes_of)
    for _ in range(2):  # a second run finds the same damage, and counts it once
        (read,) = record_event_logs(store, [log])
        assert read.problem
        assert recorded(store)[f"{written.app}/app"]["damaged"] == len(of(recorded(store), "damage")) > 0
    assert of(recorded(store), "job")


def test_a_stump_at_the_end_of_a_finished_log_is_damage(store: kvwal.Store, tmp_path: Path, written: Written) -> None:
    log = tmp_path / written.plain.name
    log.write_bytes(written.plain.read_bytes()[:-40])
    (read,) = record_event_logs(store, [log])
    assert (read.damaged, read.complete) == (1, True)
    assert recorded(store)[f"{written.app}/app"]["status"] == "RUNNING"


def test_rolls_that_were_compacted_meanwhile_do_not_count_again(
    store: kvwal.Store, tmp_path: Path, written: Written
) -> None:
    once = in_one_go(tmp_path, written.rolled)
    folder = shutil.copytree(written.rolled, tmp_path / written.rolled.name)
    last = max(folder.glob("events_*"), key=lambda path: int(path.name.split("_")[1]))
    kept = tmp_path / last.name
    last.rename(kept)
    record_event_logs(store, [folder])
    shutil.rmtree(folder)
    shutil.copytree(written.compacted, folder)
    assert list(folder.glob("*.compact"))
    (read,) = record_event_logs(store, [folder])
    assert read.events > 0
    assert recorded(store) == once
    assert len(of(once, "job")) == LARGE_JOBS


def test_compacted_rolls_that_were_read_in_part_count_once(
    store: kvwal.Store, tmp_path: Path, written: Written
) -> None:
    folder = shutil.copytree(written.rolled, tmp_path / written.rolled.name)
    for path in folder.glob("events_*"):
        if not path.name.startswith("events_1_"):
            path.unlink()
    first = next(folder.glob("events_1_*"))
    first.write_bytes(b"\n".join(first.read_bytes().split(b"\n")[:12]) + b"\n")
    record_event_logs(store, [folder])
    shutil.rmtree(folder)
    shutil.copytree(written.compacted, folder)
    record_event_logs(store, [folder])
    values = recorded(store)
    app = values[f"{written.rolling_app}/app"]
    assert app["jobs"] == len(of(values, "job")) <= LARGE_JOBS
    assert app["tasks"] == sum(stage["tasks"] for stage in of(values, "stage"))


def test_what_is_no_event_log_is_named(store: kvwal.Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no event log at"):
        record_event_logs(store, [tmp_path / "nowhere"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="holds no event log"):
        record_event_logs(store, [empty])
    notes = empty / "notes"
    notes.write_text("hello, this is no event log\n")
    assert "is no event log of Spark" in record_event_logs(store, [notes])[0].problem


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("readme.txt", "Logs of our jobs.\n", "is no event log of Spark"),
        ("picture.png", "no line end", "is no event log of Spark"),
        ("figures.jsonl", '{"a": 1}\n', "is no event log of Spark"),
        ("local-1", "", "does not name its application yet"),
        ("local-2", '{"Ev', "does not name its application yet"),
        ("local-3.inprogress", '{"Event":"SparkListenerLogStart","Spark', "does not name its application yet"),
        (
            "local-4.inprogress",
            '{"Event":"SparkListenerLogStart","Spark Version":"4"}\n',
            "does not name its application yet",
        ),
    ],
)
def test_in_a_folder_what_is_no_event_log_or_has_just_begun_is_skipped(
    store: kvwal.Store, tmp_path: Path, written: Written, name: str, text: str, why: str
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / name).write_text(text)
    shutil.copy(written.plain, logs)
    reads = {read.path.name: read for read in record_event_logs(store, [logs])}
    assert why in reads[name].skipped
    assert not any(read.problem for read in reads.values())
    assert reads[written.plain.name].complete
    ran = command("record", tmp_path / "root", logs)
    assert ran.code == 0, ran.err
    assert f"Skipped {name}: " in ran.err


def test_hostile_numbers_and_names_are_damage_or_kept_as_they_are(
    store: kvwal.Store, tmp_path: Path, written: Written
) -> None:
    start = next(line for line in written.plain.read_bytes().split(b"\n") if b"SparkListenerApplicationStart" in line)
    event = {**json.loads(start), "App ID": "../../etc/passwd", "App Name": "[red]boo[/]"}
    huge = b'{"Event":"SparkListenerJobStart","Job ID":' + b"9" * 40 + b',"Stage IDs":[]}'
    (tmp_path / "log").write_bytes(
        b"\n".join([b'{"Event":"SparkListenerLogStart"}', json.dumps(event).encode(), huge, b""])
    )
    (read,) = record_event_logs(store, [tmp_path / "log"])
    assert read.damaged == 1
    assert {key.count("/") for key in recorded(store) if key.endswith("/app")} == {1}
    store.close()
    ran = command("jobs", tmp_path / "store")
    assert ran.code == 0
    assert "[red]boo[/]" in ran.out


def test_the_command_reads_logs_and_reads_on(tmp_path: Path, written: Written) -> None:
    root = tmp_path / "root"
    ran = command("record", root, written.plain.parent, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["complete"]
    assert json.loads(command("record", root, written.plain, "--json").out)["events"] == 0
    bad = command("record", root, written.compressed["lzf"])
    assert bad.code == 4
    assert "lzf" in bad.err
    assert command("record", tmp_path / "other").code == 2
