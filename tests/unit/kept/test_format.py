"""docs/format/kept-log.md is the format: its numbers are those of the code, and a file of version 1 is read. Damage is told."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator

import msgspec
import pytest
import zstandard

from kvwal.spark.kept import frames
from kvwal.spark.kept.frames import DamagedKeptLog, Directory
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.stage_index import MOST_LINES, MOST_STAGES
from kvwal.spark.kept.task_lines import TASK_EVENTS, StageAttempt
from kvwal.spark.kept.tasks import Task, tasks_of
from tests.repository.source import ROOT

PAGE = (ROOT / "docs" / "format" / "kept-log.md").read_text()
(GOLDEN,) = (ROOT / "tests" / "golden" / "kept-log-1").glob("*.zstd")
(LOG,) = (ROOT / "tests" / "golden" / "event-log").iterdir()
DATA = GOLDEN.read_bytes()


def opened(data: bytes) -> KeptLog:
    return KeptLog(io.BytesIO(data), len(data))


def tasks(log: KeptLog) -> dict[StageAttempt, list[Task]]:
    return {of: tasks_of(log.lines(of), of) for of, _ in log.stages()}


def test_the_page_has_the_numbers_of_the_code() -> None:
    assert {int(number, 16) for number in re.findall(r"`0x([0-9A-F]{8})`", PAGE)} == {
        0x184D2A50,
        0x184D2A5E,
        0x8F92EAB1,
    }
    assert frames.skippable(b"")[:4] == (0x184D2A50).to_bytes(4, "little")
    table = frames.seek_table_frame([])
    assert (table[:4], table[-4:]) == ((0x184D2A5E).to_bytes(4, "little"), (0x8F92EAB1).to_bytes(4, "little"))
    assert f"at most {MOST_LINES:,} lines and {MOST_STAGES:,} stage attempts" in PAGE
    assert f"{frames.FRAME_BYTES >> 10} KiB of the log" in PAGE
    assert all(f"`{name}`" in PAGE for name in TASK_EVENTS)


def test_the_page_has_the_fields_of_the_directory() -> None:
    section = PAGE.partition("## The directory")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(Directory.__struct_fields__)


def test_the_page_of_metadata_names_each_field_of_a_task() -> None:
    page = (ROOT / "docs" / "spark-metadata.md").read_text()
    section = page.partition("\n## Keeping event logs\n")[2].partition("\n## ")[0]
    assert [name for name in Task.__struct_fields__ if f"`{name}`" not in section] == []


def test_a_file_of_version_1_is_read() -> None:
    log = opened(DATA)
    text = zstandard.ZstdDecompressor().stream_reader(LOG.read_bytes(), read_across_frames=True).read()
    assert zstandard.ZstdDecompressor().stream_reader(DATA, read_across_frames=True).read() == text
    assert (log.directory.version, log.directory.bytes, log.directory.lines) == (1, len(text), text.count(b"\n"))
    lines = text.split(b"\n")
    found = tasks(log)
    assert [of.stage for of in found] == [0, 2, 3]
    assert found == {of: tasks_of(lines, of) for of in found}
    assert len(log.directory.indexes) > 1


def damaged() -> Iterator[bytes]:
    """The file with one byte changed, or cut, at many places."""
    for at in range(0, len(DATA), 5):
        yield DATA[:at] + bytes([DATA[at] ^ 0x21]) + DATA[at + 1 :]
    for at in range(0, len(DATA), 97):
        yield DATA[:at]


def test_a_damaged_file_is_told_or_gives_the_tasks_that_were_written() -> None:
    whole, told = tasks(opened(DATA)), 0
    for data in damaged():
        try:
            found = tasks(opened(data))
        except DamagedKeptLog:
            told += 1
        else:
            assert found == whole
    assert told > 500


def test_a_seek_table_of_the_right_length_with_wrong_sizes_is_told() -> None:
    entries = frames.parse_seek_table(DATA[-frames.seek_table_bytes(DATA[-frames.SEEK_FOOTER_BYTES :]) :])
    first, second = [number for number, entry in enumerate(entries) if entry.log][-2:]
    for number, more in ((first, 10), (second, -10)):
        entries[number] = frames.FrameSizes(entries[number].stored, entries[number].log + more)
    table = frames.seek_table_frame(entries)
    log = opened(DATA[: -len(table)] + table)
    with pytest.raises(DamagedKeptLog, match="a frame has less than its seek table says"):
        tasks(log)


def test_a_file_of_a_later_version_is_refused_by_its_version() -> None:
    later = msgspec.json.encode({**msgspec.to_builtins(opened(DATA).directory), "version": 2})
    frame = frames.skippable(b"kvwal event log\n" + zlib.crc32(later).to_bytes(4, "little") + later)
    data = frame + frames.seek_table_frame([frames.FrameSizes(len(frame), 0)])
    with pytest.raises(DamagedKeptLog, match="it has version 2, and this kvwal reads version 1"):
        opened(data)


def test_a_line_without_an_end_that_is_too_long_is_kept_and_in_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvwal.spark.kept import writer as module

    monkeypatch.setattr(module, "MAX_LINE", 2_000)
    task = b'{"Event":"SparkListenerTaskStart","Stage ID":1,"Stage Attempt ID":0,"Task Info":{"Task ID":%d,"Index":0}'
    log = b"\n".join((task % 1 + b"}", task % 2 + b" " * 9_000 + b"}", task % 3 + b"}")) + b"\n"
    out = io.BytesIO()
    writer = module.KeptLogWriter(out, 500)
    for at in range(0, len(log), 100):
        writer.write(log[at : at + 100])
    assert writer.close().lines == 3
    reader, of = opened(out.getvalue()), StageAttempt(1, 0)
    assert zstandard.ZstdDecompressor().stream_reader(out.getvalue(), read_across_frames=True).read() == log
    assert [row.task for row in tasks_of(reader.lines(of), of)] == [1, 3]
