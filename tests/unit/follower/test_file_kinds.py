"""Files that are no event logs, or that are compressed in a way that kvwal does not read, are named with their kind."""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest

from tests.support.cli import kvwal as command
from tests.support.event_logs import event_log
from tests.unit.follower.test_follower import Setting, setting

__all__ = ["setting"]
TEXT = event_log("app-9", 1)


def zipped(text: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("app-9", text)
    return file.getvalue()


def tarred(text: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("app-9")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return file.getvalue()


KINDS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "bzip2": (bz2.compress, "is compressed with bzip2"),
    "xz": (lzma.compress, "is compressed with xz"),
    "lz4": (lz4.frame.compress, "is compressed by the command lz4"),
    "zip": (zipped, "is a zip or jar archive"),
    "tar": (tarred, "is a tar archive"),
    "parquet": (lambda text: b"PAR1" + text, "is a Parquet file"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_not_read_is_named_with_its_kind(
    setting: Setting, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    made, sentence = KINDS[kind]
    setting.write("app-1", event_log("app-1", 1))
    setting.write("other", made(TEXT))
    ran = command("record", tmp_path / "root", setting.logs)
    assert (ran.code, sentence in ran.err) == (0, True), ran.err
    setting.follower().round()
    assert setting.status.last is not None
    assert (setting.status.last.complete, setting.status.last.skipped) == (1, 1)
    ran = command("record", tmp_path / "root", setting.logs / "other")
    assert (ran.code, sentence in ran.err) == (2, True), ran.err


def test_a_file_with_a_codec_of_spark_that_is_not_read_is_a_problem(setting: Setting, tmp_path: Path) -> None:
    setting.write("app-9.lzf", b"ZV\x00\x00\x10" + TEXT)
    ran = command("record", tmp_path / "root", setting.logs)
    assert (ran.code, "is compressed with lzf" in ran.err) == (4, True)
