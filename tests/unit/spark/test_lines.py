"""The lines of a log in any framing, cut anywhere: what is whole comes out, once, and nothing else."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.errors import ConfigError
from kvwal.spark.eventlog import lines
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.eventlog.logs import LocalEventLog, identify, settings_of
from kvwal.spark.events.jobs import JobStart
from kvwal.spark.events.parser import DamagedLine, parse_line
from tests.support.event_logs import CODECS, compressed

BLOCK = 700
TEXT = b"".join(
    b'{"Event":"Something","Number":%d,"Text":"%s"}\n' % (number, b"x" * (number % 90)) for number in range(200)
)


def framed(codec: str) -> bytes:
    """TEXT as Spark's codecs frame it, with the end mark of lz4."""
    return compressed(TEXT, codec, BLOCK) + (b"LZ4Block\x16" + bytes(12) if codec == "lz4" else b"")


def read(reader: Lines) -> list[bytes]:
    found = []
    while (more := reader.more()) is not None:
        found += more
    return found


@pytest.mark.parametrize("codec", CODECS)
@given(cuts=st.lists(st.integers(0, 20_000), max_size=6), chunk=st.integers(1, 5_000))
def test_a_growing_file_gives_each_line_once(tmp_path: Path, codec: str, cuts: list[int], chunk: int) -> None:
    whole = framed(codec)
    path = tmp_path / "log"
    path.write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK", chunk)
        reader = Lines(path)
        found = []
        for end in [*sorted(cuts), len(whole)]:
            path.write_bytes(whole[:end])
            found += read(reader)
            assert TEXT.startswith(b"".join(line + b"\n" for line in found))
        reader.close()
    assert found == TEXT.splitlines()
    assert reader.unfinished() == b""


@pytest.mark.parametrize("codec", CODECS[1:])
def test_damage_is_named_and_never_crashes(tmp_path: Path, codec: str) -> None:
    whole = framed(codec)
    refused = 0
    for at in range(0, len(whole), 37):
        path = tmp_path / "log"
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        reader = Lines(path)
        try:
            read(reader)
        except DamagedFile:
            refused += 1
        finally:
            reader.close()
    assert refused


def test_zeros_where_a_snappy_block_begins_are_damage(tmp_path: Path) -> None:
    """They looked like blocks of no bytes, and what was lost was not told."""
    whole = framed("snappy")
    second = 16 + 4 + int.from_bytes(whole[16:20], "big")
    path = tmp_path / "log"
    path.write_bytes(whole[:second] + bytes(8) + whole[second:])
    with pytest.raises(DamagedFile, match="no bytes"):
        read(Lines(path))


def test_gzip_pads_with_zeros_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(framed("gzip") + bytes(700))
    assert read(Lines(path)) == TEXT.splitlines()
    path.write_bytes(framed("gzip") + b"no member")
    with pytest.raises(DamagedFile, match="gzip"):
        read(Lines(path))


def test_a_line_beyond_all_measure_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10_000)
    monkeypatch.setattr(lines, "CHUNK", 1_000)
    (tmp_path / "log").write_bytes(b"short\n" + b"y" * 100_000 + b"\nnext\n")
    reader = Lines(tmp_path / "log")
    short, long, following = read(reader)
    reader.close()
    assert (short, following) == (b"short", b"next")
    assert len(long) < 12_000


class Counted(bytes):
    """Bytes of a file that count each byte of them that is joined to others or searched."""

    handled = 0

    def __radd__(self, before: bytes) -> Counted:
        Counted.handled += len(before) + len(self)
        return Counted(bytes(before) + bytes(self))

    def split(self, *at: Any) -> list[bytes]:
        Counted.handled += len(self)
        return bytes(self).split(*at)


class CountedFile(io.BytesIO):
    """A file whose bytes count what is done with them."""

    name = "log"

    def read(self, size: int | None = -1, /) -> bytes:
        return Counted(super().read(size))

    def open(self, mode: str, /) -> CountedFile:
        return self


@pytest.mark.parametrize("most", [10_000, 10_000_000])
def test_a_long_line_costs_as_much_as_its_length(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", most)
    monkeypatch.setattr(lines, "CHUNK", 1_000)
    monkeypatch.setattr(Counted, "handled", 0)
    log = b"short\n" + b"y" * 1_000_000 + b"\nnext\n"
    found = read(Lines(CountedFile(log)))
    assert (found[0], found[2:]) == (b"short", [b"next"])
    assert Counted.handled < 3 * len(log)


@pytest.mark.parametrize("chunk", [1_000, 7, 30_000])
def test_the_place_of_a_line_is_right_after_a_line_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10_000)
    monkeypatch.setattr(lines, "CHUNK", chunk)
    log = b"first line\n" + b"y" * 25_000 + b"\nnext\n" + b"z" * 12_000
    (tmp_path / "log").write_bytes(log)
    reader, places = Lines(tmp_path / "log"), {}
    while (more := reader.more()) is not None:
        if more:
            places[more[-1][:1]] = reader.last_line
    assert places[b"n"] == log.index(b"next")
    assert places.get(b"y", 11) == 11
    assert len(reader.rest) <= 10_000
    assert reader.unfinished()[:1] == b"z"
    reader.close()


NO_EVENTS = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'{"Event":7}',
    b'{"Event":"SparkListenerJobStart"}',
    b'{"Event":"SparkListenerTaskStart"',
    b"[" * 5_000,
    b"\xff\xfe",
]


@pytest.mark.parametrize("line", NO_EVENTS)
def test_what_is_no_event_is_damage(line: bytes) -> None:
    with pytest.raises(DamagedLine):
        parse_line(line)


def test_events_are_read_however_they_are_written() -> None:
    assert parse_line(b'{"Event":"SomebodyElses","x":1}') is None
    assert parse_line(b'{"Event":"SparkListenerTaskStart","Stage ID":0}') is None
    spaced = parse_line(b'{ "Job ID": 3, "Event": "SparkListenerJobStart", "New Field": [] }')
    assert isinstance(spaced, JobStart)
    assert spaced.job_id == 3


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_damage(line: bytes) -> None:
    with suppress(DamagedLine):
        assert parse_line(line) is None


def test_a_damaged_file_of_a_rolling_log_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "events_1_app-1.zstd").write_bytes(bytes.fromhex("28b52ffd") + b"no frame of zstd")
    with pytest.raises(ConfigError, match=r"events_1_app-1\.zstd: the zstd stream is damaged"):
        identify(LocalEventLog(folder))
    assert settings_of(LocalEventLog(folder)) == {}
