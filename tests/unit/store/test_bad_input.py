"""Files of somebody else, archives and settings that cannot be used: each is a named error, before anything is changed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ConfigError, CorruptLog, KvwalError, NewerVersion
from kvwal.log.files.format import NEWEST, Header, pack_header
from kvwal.log.files.names import log_folder, segment_name, snapshot_name
from kvwal.node.config import read_file
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess


@pytest.mark.parametrize("taken", ["default", "default/local", "default/local/b", "default/local/b/local"])
def test_a_file_on_the_way_to_the_log(tmp_path: Path, taken: str) -> None:
    path = tmp_path / taken
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine")
    with kvwal.open(tmp_path, archive=None) as store, pytest.raises(ConfigError, match="is a file, not a folder"):
        store.map("b")
    assert path.read_bytes() == b"mine"


def header(**changes: object) -> Header:
    fields = {"namespace": "default", "cluster": "local", "business": "b", "node": "local", "log_id": "0" * 32}
    numbers = {"epoch": 1, "first_sequence": 1, "previous_crc": 0, "salt": 1, "created_ms": 1}
    return Header(**(fields | numbers | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        (segment_name(1), b"", CorruptLog),
        (segment_name(1), b"\x7fELF" + bytes(500), CorruptLog),
        (segment_name(1), b"PAR1" * 50, CorruptLog),
        (segment_name(1), bytes(4096), CorruptLog),
        (segment_name(1), b"".join(pack_header(header(format=NEWEST + 1))), NewerVersion),
        (segment_name(2), b"".join(pack_header(header(first_sequence=2))), CorruptLog),
        (segment_name(1), b"".join(pack_header(header(first_sequence=2))), CorruptLog),
        (segment_name(1), b"".join(pack_header(header(previous_crc=5))), CorruptLog),
        (segment_name(1), b"".join(pack_header(header(node="other"))), ConfigError),
        (segment_name(1), b"".join(pack_header(header(business="other"))), ConfigError),
        (snapshot_name(5), b"no snapshot", CorruptLog),
        (snapshot_name(5), b"".join(pack_header(header())), CorruptLog),
    ],
)  # fmt: skip
def test_a_file_that_is_not_this_logs(tmp_path: Path, name: str, content: bytes, error: type[KvwalError]) -> None:
    """The error names the file, or its folder, and the file stays as it is in every way to open the store."""
    folder = log_folder(tmp_path, Place("default", "local", "b", "local"))
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    for _ in range(2):
        with kvwal.open(tmp_path, archive=None) as store, pytest.raises(error, match=str(folder)) as caught:
            store.map("b")
        assert type(caught.value) is error
        assert (folder / name).read_bytes() == content
        assert sorted(path.name for path in folder.iterdir()) == sorted(["LOCK", name])


def test_one_bad_business_costs_the_others_nothing(tmp_path: Path) -> None:
    folder = log_folder(tmp_path, Place("default", "local", "bad", "local"))
    folder.mkdir(parents=True)
    (folder / segment_name(1)).write_bytes(b"noise")
    with kvwal.open(tmp_path, archive=None) as store:
        with pytest.raises(CorruptLog):
            store.map("bad")
        store.map("good")["a"] = 1
        assert store.businesses() == ["bad", "good"]


def test_a_damaged_snapshot_is_reported_and_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its segments wait for an archive that was not reached yet, so nothing is lost."""
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    root, archive = tmp_path / "root", tmp_path / "archive"
    with kvwal.open(root, archive=archive) as store:
        store.map("b")["a"] = 1
        store.checkpoint()
        store.close(archive=False)
    (snapshot,) = root.rglob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-20])
    with kvwal.open(root, archive=archive) as store:
        assert dict(store.map("b")) == {"a": 1}
        (kept,) = root.rglob("*.torn")
        assert [vars(line)["kvwal"]["kept"] for line in caplog.records if line.name.startswith("kvwal")] == [str(kept)]
        store.checkpoint()
        store.archive()
    assert [path.name for path in root.rglob("*.snapshot")] == [snapshot.name]
    with kvwal.open(root, archive=archive) as store:
        assert dict(store.map("b")) == {"a": 1}


@pytest.mark.parametrize("setting", [*kvwal.Settings.__struct_fields__])
@pytest.mark.parametrize("value", [0, -1, "1", None, True, 1e6, math.nan, math.inf, 1 << 70, b"1", [1]])
def test_a_setting_that_cannot_work(setting: str, value: object) -> None:
    if setting.endswith("_seconds") and value == 1e6:
        assert getattr(kvwal.Settings(**{setting: 1e6}), setting) == 1e6  # type: ignore[arg-type]
        return
    if setting == "reserve_bytes" and value in (0, None):
        assert kvwal.Settings(reserve_bytes=value).reserve_bytes is value, "no reserve, and the default one"
        return
    if (setting == "content_keep_seconds" and value == 0 and value is not False) or (
        setting == "content_folders" and value is None
    ):
        assert getattr(kvwal.Settings(**{setting: value}), setting) == value, "none is kept, and none is named"  # type: ignore[arg-type]
        return
    with pytest.raises(ConfigError, match=setting):
        kvwal.Settings(**{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, "1", None, True, 1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["ms", "bytes"])
def test_an_interval_that_cannot_work(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        kvwal.Interval(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["segment_bytes = 1e6", "archive_seconds = nan", "archive_seconds = inf", "ring_slots = true"]
)
def test_a_nodes_file_with_a_value_of_another_type(tmp_path: Path, text: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(f"[log]\n{text}\n")
    with pytest.raises(ConfigError, match=text.split()[0]):
        read_file(path)


def test_an_archive_folder_is_the_one_that_was_meant_when_the_store_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archiver starts when it is first needed, and the process may have gone elsewhere by then."""
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with kvwal.open("root", archive="archive") as store:
        store.map("b")["a"] = 1
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.archive()
        assert len(store.map("b").history("a")) == 1
    assert len(list((tmp_path / "archive").rglob("*.parquet"))) == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_storage_options_that_cannot_reach_the_archiver_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="storage_options") as caught:
        kvwal.open(tmp_path, archive="s3://bucket", storage_options={"secret": "hidden", "session": object()})
    assert "hidden" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "says"),
    [({"settings": 5}, "settings"), ({"settings": {}}, "settings"), ({"storage_options": 5}, "storage_options"),
     ({"storage_options": "key"}, "storage_options"), ({"root": ""}, "empty name")],
)  # fmt: skip
def test_an_argument_of_the_wrong_type(tmp_path: Path, given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        kvwal.open(**({"root": tmp_path} | given))  # type: ignore[arg-type]
