"""Laws of kept logs: the log comes back byte by byte, and the tasks found by the index are those that reading all lines finds."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwal.spark.events.parser import DamagedLine, parse_line
from kvwal.spark.events.tasks import TaskEnd
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.kept.tasks import tasks_of
from kvwal.spark.kept.writer import KeptLogWriter
from tests.support.chance import examples

STAGES = (0, 1, 7, 70_000)
ATTEMPTS = (0, 1)


def event(name: str, stage: int, attempt: int, task: int, reason: str) -> dict[str, Any]:
    """A task's event, of which Spark writes the first three fields first."""
    info = {
        "Task ID": task,
        "Index": task,
        "Attempt": 0,
        "Launch Time": 5,
        "Finish Time": 9 + task,
        "Host": "h",
        "Executor ID": "1",
    }
    fields: dict[str, Any] = {"Event": name, "Stage ID": stage, "Stage Attempt ID": attempt, "Task Info": info}
    if name.endswith("End"):
        fields |= {"Task End Reason": {"Reason": reason}, "Task Metrics": {"JVM GC Time": task}}
    return fields


NAMES = (
    "SparkListenerTaskStart",
    "SparkListenerTaskEnd",
    "SparkListenerTaskGettingResult",
    "SparkListenerStageSubmitted",
)
EVENTS = st.builds(
    event,
    st.sampled_from(NAMES),
    st.sampled_from(STAGES),
    st.sampled_from(ATTEMPTS),
    st.integers(0, 20),
    st.sampled_from(("Success", "TaskKilled", "ExecutorLostFailure", "Resubmitted")),
)


def written(fields: dict[str, Any], form: str) -> bytes:
    """An event as Spark writes it, or as something else would."""
    text = json.dumps(fields, separators=(",", ":"))
    if form == "turned":
        text = json.dumps(dict(reversed(fields.items())))
    elif form == "lenient":
        text = text.replace('"Attempt":0', '"Attempt":NaN')
    elif form == "twice":
        text = text[:-1] + ',"Stage ID":1}'
    elif form == "texts":
        text = text.replace('"Stage Attempt ID":0', '"Stage Attempt ID":"0"')
    elif form == "no stage":
        text = text.replace('"Stage ID"', '"Stag"')
    elif form == "torn":
        text = text[: len(text) // 2]
    elif form == "long":
        text = text.replace('"Host":"h"', f'"Host":"{"h" * 2_000}"')
    return text.encode()


FORMS = ("spark", "spark", "spark", "turned", "lenient", "twice", "texts", "no stage", "torn", "long")
LINES = st.one_of(
    st.builds(written, EVENTS, st.sampled_from(FORMS)),
    st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"")),
    st.just(b'{"Event":"SparkListenerApplicationEnd","Timestamp":5}'),
)
LOGS = st.tuples(st.lists(LINES, max_size=60), st.booleans()).map(
    lambda drawn: b"\n".join(drawn[0]) + (b"\n" if drawn[1] and drawn[0] else b"")
)


def kept(log: bytes, frame_bytes: int, most_lines: int, chunk: int) -> bytes:
    """The bytes of the kept log, given in chunks."""
    out = io.BytesIO()
    writer = KeptLogWriter(out, frame_bytes, most_lines)
    for at in range(0, len(log), chunk):
        writer.write(log[at : at + chunk])
    directory = writer.close()
    assert directory.bytes == len(log)
    assert directory.lines == log.count(b"\n")
    return out.getvalue()


@settings(max_examples=examples(100), deadline=None)
@given(LOGS, st.sampled_from((1, 100, 700, 1 << 20)), st.integers(1, 9), st.sampled_from((1, 97, 5_000)))
def test_tasks_by_the_index_are_those_of_all_lines(log: bytes, frame_bytes: int, most_lines: int, chunk: int) -> None:
    data = kept(log, frame_bytes, most_lines, chunk)
    reader = KeptLog(io.BytesIO(data), len(data))
    every = log.split(b"\n")
    for stage in (*STAGES, 4):
        attempts = [of for of in (StageAttempt(stage, attempt) for attempt in ATTEMPTS) if tasks_of(every, of)]
        assert set(attempts) <= set(reader.attempts(stage))
        for of in (StageAttempt(stage, attempt) for attempt in ATTEMPTS):
            assert tasks_of(reader.lines(of), of) == tasks_of(every, of)


@settings(max_examples=examples(60), deadline=None)
@given(LOGS)
def test_every_end_of_a_task_that_records_count_has_its_row(log: bytes) -> None:
    data = kept(log, 200, 5, 1_000)
    reader = KeptLog(io.BytesIO(data), len(data))
    ends = set()
    for line in log.split(b"\n"):
        try:
            found = parse_line(line)
        except DamagedLine:
            continue
        if isinstance(found, TaskEnd):
            ends.add((found.stage_id, found.attempt, found.task_info.task_id))
    rows = {
        (of.stage, of.attempt, task.task)
        for of, _ in reader.stages()
        for task in tasks_of(reader.lines(of), of)
        if task.status != "RUNNING"
    }
    assert rows == ends


@settings(max_examples=examples(60), deadline=None)
@given(LOGS, st.sampled_from((1, 300, 1 << 20)), st.integers(1, 9))
def test_a_reader_of_zstd_reads_the_log_itself(log: bytes, frame_bytes: int, most_lines: int) -> None:
    data = kept(log, frame_bytes, most_lines, 1_000)
    assert zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read() == log
    assert zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(data) == log


@settings(max_examples=examples(50), deadline=None)
@given(LOGS, st.integers(1, 97), st.integers(1, 97))
def test_the_same_log_gives_the_same_bytes(log: bytes, one: int, other: int) -> None:
    assert kept(log, 300, 5, one) == kept(log, 300, 5, other)


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the command zstd is not installed")
def test_the_command_zstd_reads_a_kept_log(tmp_path: Path) -> None:
    log = b"".join(written(event(NAMES[1], task % 3, 0, task, "Success"), "spark") + b"\n" for task in range(2_000))
    path = tmp_path / "log.zstd"
    path.write_bytes(kept(log, 10_000, 100, 5_000))
    assert subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True).stdout == log
