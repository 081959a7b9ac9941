"""Logs that the real libraries write here and now, imported, and held against what the libraries give back."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.importers.flume.checkpoint import checkpoint_in
from kvwal.ports.disk import OS_DISK
from tests.support.cli import kvwal as run
from tests.support.java.golden_logs import java_text, nifi_line
from tests.support.java.logs import PRODUCTS, read, skip_without, write

CHANGES = 300


def written(product: str, folder: Path, changes: int = CHANGES) -> tuple[Path, list[dict[str, Any]]]:
    """A log, and what its library gives back of a copy."""
    skip_without()
    log = folder / "log"
    write(product, log, changes, seed=11)
    shutil.copytree(log, folder / "copy")
    return log, read(product, folder / "copy")


@pytest.mark.long
def test_seatunnel(tmp_path: Path) -> None:
    log, lines = written("seatunnel", tmp_path)
    assert run("import", "seatunnel", log / "cluster", tmp_path / "store").code == 0
    with kvwal.open(tmp_path / "store", archive=None, read_only=True) as store:
        values = {(java_text(key), type(key)): value for key, value in store.map("jobs").items()}
    assert len(values) == len(lines) > CHANGES / 4
    texts = {line["key"]: line for line in lines if line["value_class"] == "java.lang.String"}
    assert texts
    assert all(values[key, str] == line["value"] for key, line in texts.items() if line["key_class"].endswith("String"))


@pytest.mark.long
def test_flume(tmp_path: Path) -> None:
    log, lines = written("flume", tmp_path)
    checkpoint = checkpoint_in(OS_DISK, log)
    assert checkpoint is not None
    assert checkpoint.places, "the checkpoint of the first start"
    assert run("import", "flume", log, tmp_path / "store").code == 0
    with kvwal.open(tmp_path / "store", archive=None, read_only=True) as store:
        items = list(store.queue("flume").browse())
    assert len(items) > 20
    assert [bytes_of(item) for item in items] == [(line["headers"], base64.b64decode(line["body"])) for line in lines]


def bytes_of(item: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    body = item["body"]
    return item["headers"], base64.b64decode(body) if item.get("body_encoding") == "base64" else body.encode()


@pytest.mark.long
@pytest.mark.parametrize("log", ["nifi-sequential", "nifi-minimal"])
def test_nifi(log: str, tmp_path: Path) -> None:
    folder, lines = written(log, tmp_path)
    ran = run("import", "nifi", folder, tmp_path / "store", "--json")
    assert ran.code == 4, "a swap file is named"
    assert json.loads(ran.out)["left_out"] == 1
    with kvwal.open(tmp_path / "store", archive=None, read_only=True) as store:
        records = dict(store.map("flowfiles"))
    assert [nifi_line(key, value) for key, value in sorted(records.items())] == sorted(
        lines, key=lambda line: line["id"]
    )


@pytest.mark.long
def test_nifi_with_an_overflow_file(tmp_path: Path) -> None:
    """A transaction above five megabytes stands in a file of its own, and the journal has its name."""
    folder, lines = written("nifi-sequential", tmp_path, 1_001)
    assert list(folder.rglob("overflow-*/*"))
    moved = folder.rename(tmp_path / "moved")
    assert run("import", "nifi", moved, tmp_path / "store").code == 4
    with kvwal.open(tmp_path / "store", archive=None, read_only=True) as store:
        records = dict(store.map("flowfiles"))
    assert len(records) == len(lines) > 60_000
    assert [nifi_line(key, value) for key, value in sorted(records.items())] == sorted(
        lines, key=lambda line: line["id"]
    )
    next(moved.rglob("overflow-*/*")).unlink()
    ran = run("import", "nifi", moved, tmp_path / "other")
    assert ran.code == 4
    assert "its overflow file overflow-" in ran.err


@pytest.mark.long
@pytest.mark.parametrize("product", PRODUCTS)
def test_what_a_library_makes_of_a_cut_log(product: str, tmp_path: Path) -> None:
    """SeaTunnel and NiFi take a record that is not complete for the end. Flume does not start, and the import has the rest."""
    skip_without()
    log = tmp_path / "log"
    write(product, log, 60, seed=5)
    paths = [path for path in log.rglob("*") if path.name == "wal.txt" or path.suffix == ".journal"]
    path = max(paths or log.rglob("log-*[0-9]"), key=lambda path: path.stat().st_mtime_ns)
    path.write_bytes(path.read_bytes().rstrip(b"\x80")[:-3])
    if product == "flume":
        shutil.rmtree(log / "checkpoint")
    shutil.copytree(log, tmp_path / "copy")
    word, folder = product.partition("-")[0], log / "cluster" if product == "seatunnel" else log
    ran = run("import", word, folder, tmp_path / "store")
    assert ran.code == (4 if word == "nifi" else 0), "NiFi's swap file is named"
    assert f"{path}: at byte " in ran.err
    assert "a crash cut the last write short" in ran.err
    if product == "flume":
        with pytest.raises(RuntimeError, match="flume read ended with 1"):
            read(product, tmp_path / "copy")
        return
    with kvwal.open(tmp_path / "store", archive=None, read_only=True) as store:
        imported = len(store.map("jobs" if product == "seatunnel" else "flowfiles"))
    assert imported == len(read(product, tmp_path / "copy"))
