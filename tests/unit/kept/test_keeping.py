"""Keeping logs: which bytes are kept under which name, what a second call does, and what a deleted or damaged log leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import zstandard

from kvwal.spark import retention
from kvwal.spark.eventlog.logs import ApplicationIdentity, LocalEventLog, identify
from kvwal.spark.kept.contents import kept_logs, kept_name, parse_kept_name
from kvwal.spark.kept.keeping import Keeping, keep_log
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.kept.tasks import tasks_of
from kvwal.spark.records import Application, to_value
from tests.support.event_logs import CODECS, SUFFIXES, compressed, event_log, write_rolling
from tests.support.kept.contents import MemoryContents


def keep(contents: MemoryContents, path: Path, beat: Callable[[], None] = lambda: None) -> Keeping:
    log = LocalEventLog(path)
    identity = identify(log)
    assert identity is not None
    return keep_log(contents, log, identity, beat)


def log_of(contents: MemoryContents, name: str) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(contents.stored[name].data, read_across_frames=True).read()


@pytest.mark.parametrize("codec", CODECS)
def test_a_log_of_any_codec_is_kept_as_its_bytes(codec: str, tmp_path: Path) -> None:
    contents, text = MemoryContents(), event_log("app-1", 5)
    path = tmp_path / f"app-1{SUFFIXES[codec]}"
    path.write_bytes(compressed(text, codec))
    assert keep(contents, path) == Keeping("app-1/app-1.zstd", is_new=True)
    assert log_of(contents, "app-1/app-1.zstd") == text


def test_a_log_that_is_kept_is_not_kept_again_until_it_grows(tmp_path: Path) -> None:
    contents, path = MemoryContents(), tmp_path / "app-1.inprogress"
    path.write_bytes(event_log("app-1", 1, ended=False))
    name = "app-1/app-1.zstd.inprogress"
    assert keep(contents, path) == Keeping(name, is_new=True)
    assert keep(contents, path) == Keeping(name, is_new=False)
    assert contents.created == [name]
    path.write_bytes(event_log("app-1", 2, ended=False))
    assert keep(contents, path) == Keeping(name, is_new=True)
    assert log_of(contents, name) == event_log("app-1", 2, ended=False)


def test_the_finished_log_takes_the_place_of_the_one_in_progress(tmp_path: Path) -> None:
    contents, path = MemoryContents(), tmp_path / "app-1.inprogress"
    path.write_bytes(event_log("app-1", 1, ended=False))
    keep(contents, path)
    (tmp_path / "app-1").write_bytes(event_log("app-1", 1))
    keep(contents, tmp_path / "app-1")
    assert list(contents.stored) == ["app-1/app-1.zstd"]
    assert keep(contents, path) == Keeping("app-1/app-1.zstd", is_new=False)


def test_a_rolling_log_is_kept_as_one_and_a_torn_last_line_of_a_roll_keeps_to_itself(tmp_path: Path) -> None:
    contents, text = MemoryContents(), event_log("app-1", 4)
    cut = len(text) // 2
    log = write_rolling(tmp_path, "app-1", [text[:cut], b'{"Event":"x"}\n' + text[cut:]], in_progress=False)
    keep(contents, log)
    assert log_of(contents, "app-1/app-1.zstd") == text[:cut] + b'\n{"Event":"x"}\n' + text[cut:]


def test_a_rolling_log_without_one_of_its_rolls_is_not_kept(tmp_path: Path) -> None:
    contents, text = MemoryContents(), event_log("app-1", 4)
    log = write_rolling(tmp_path, "app-1", [text, b"\n", b"\n"], in_progress=False)
    (log / "events_2_app-1").unlink()
    kept = keep(contents, log)
    assert "roll 2 is missing" in kept.problem
    assert not contents.stored


def test_a_log_that_is_deleted_meanwhile_leaves_what_was_kept(tmp_path: Path) -> None:
    contents, text = MemoryContents(), event_log("app-1", 4)
    log = write_rolling(tmp_path, "app-1", [text, text], in_progress=True)
    keep(contents, log)
    before = dict(contents.stored)
    write_rolling(tmp_path, "app-1", [text, text, text], in_progress=True)
    with pytest.raises(FileNotFoundError):
        keep(contents, log, (log / "events_2_app-1").unlink)
    assert contents.stored == before


def test_the_readable_part_of_a_damaged_log_is_kept(tmp_path: Path) -> None:
    contents, text = MemoryContents(), event_log("app-1", 50)
    first, last = (compressed(part, "zstd") for part in (text[: len(text) // 2], text[len(text) // 2 :]))
    log = write_rolling(tmp_path, "app-1", [first, b"\x28\xb5\x2f\xfd" + b"damage" * 9, last], in_progress=False)
    kept = keep(contents, log)
    assert "events_2_app-1 is not kept: the zstd stream is damaged" in kept.problem
    assert log_of(contents, kept.name).replace(b"\n", b"") == text.replace(b"\n", b"")


def test_a_log_of_an_earlier_run_does_not_replace_that_of_a_later_one(tmp_path: Path) -> None:
    contents = MemoryContents()
    for folder, started in (("later", 9_000), ("earlier", 5_000)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "app-1").write_bytes(event_log("app-1", 1, started=started))
    assert keep(contents, tmp_path / "later" / "app-1").is_new
    assert "later run" in keep(contents, tmp_path / "earlier" / "app-1").problem
    assert log_of(contents, "app-1/app-1.zstd") == event_log("app-1", 1, started=9_000)


def test_a_log_of_a_later_run_replaces_that_of_an_earlier_one_also_in_progress(tmp_path: Path) -> None:
    contents = MemoryContents()
    (tmp_path / "app-1").write_bytes(event_log("app-1", 1, started=5_000))
    keep(contents, tmp_path / "app-1")
    (tmp_path / "app-1.inprogress").write_bytes(event_log("app-1", 1, started=9_000, ended=False))
    keep(contents, tmp_path / "app-1.inprogress")
    assert list(contents.stored) == ["app-1/app-1.zstd.inprogress"]


def test_the_tasks_of_a_kept_log_are_found(tmp_path: Path) -> None:
    contents, text = MemoryContents(), event_log("app-1", 5)
    (tmp_path / "app-1").write_bytes(text)
    keep(contents, tmp_path / "app-1")
    reader = KeptLog(contents.open("app-1/app-1.zstd"), contents.stat("app-1/app-1.zstd").length)
    of = StageAttempt(3, 0)
    tasks = tasks_of(reader.lines(of), of)
    assert [(task.task, task.status, task.duration_ms, task.input_bytes) for task in tasks] == [
        (6, "SUCCEEDED", 10, 1_000),
        (7, "SUCCEEDED", 10, 1_000),
    ]


@pytest.mark.parametrize(
    ("app", "attempt", "name"),
    [
        ("app-20260101-0001", "", "app-20260101-0001/app-20260101-0001.zstd"),
        ("application_1_2", "1", "application_1_2/1/application_1_2_1.zstd"),
        ("Odd Name/..", "", "Odd%20Name%2F../odd-name-__.zstd"),
        ("..", "", "../__.zstd"),
        ("naïve\n", "", "na%C3%AFve%0A/na_ve_.zstd"),
    ],
)
def test_names_are_those_of_keys_and_of_spark(app: str, attempt: str, name: str) -> None:
    kept = kept_name(ApplicationIdentity(app, attempt, ""), in_progress=False)
    assert str(kept) == name
    assert parse_kept_name(name) == kept


def test_attempts_of_an_application_are_not_the_application_without_one() -> None:
    contents = MemoryContents()
    for name in (
        "app/app.zstd",
        "app/1/app_1.zstd",
        "app/2/app_2.zstd.inprogress",
        "app-2/app-2.zstd",
        "app/notes.txt",
    ):
        with contents.create(name, {}):
            pass
    assert [str(name) for name in kept_logs(contents, "app")] == ["app/app.zstd"]
    assert [str(name) for name in kept_logs(contents, "app/1")] == ["app/1/app_1.zstd"]
    assert len(list(kept_logs(contents))) == 4


def test_the_kept_log_of_an_application_that_has_gone_on_stays() -> None:
    contents = MemoryContents()
    for app in ("old", "young"):
        with contents.create(f"{app}/{app}.zstd", {}):
            pass
    records = {
        "old/app": to_value(Application(id="old", last_event=5)),
        "young/app": to_value(Application(id="young", last_event=9)),
    }
    assert retention.delete_kept_logs(contents, cast(retention.DeletingMap, records), ["old", "young"], before=7) == 1
    assert list(contents.stored) == ["young/young.zstd"]
