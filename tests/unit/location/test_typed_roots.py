"""What is typed where a folder is meant: the address of something else, an empty name, a home."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
import kvwal.aio
from kvwal.cluster.token import find_authority, find_token
from kvwal.location.parse import FolderLocation, parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark.datasource.options import read_options
from kvwal.spark.datasource.stream_options import stream_options
from kvwal.spark.eventlog.folders import open_folder
from kvwal.spark.recording.target import default_spool
from kvwal.spark.sink.options import write_options
from kvwal_archive.objects import open_objects
from tests.support.cli import kvwal as run


@pytest.mark.parametrize("typed", ["s3://bucket/prefix", "kvwal://127.0.0.1:5701", "file:///data", "s3:/bucket"])
def test_an_address_is_no_root(typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: kvwal.open(typed),
        lambda: kvwal.aio.open(typed),
        lambda: kvwal.restore(tmp_path / "archive", typed),
    ):
        with pytest.raises(kvwal.ConfigError, match="the root is the address of a cluster or of an archive"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "typed", ["localhost:5701", "kvwal:node-1:5701", "10.0.0.1:5701,10.0.0.2:5701", "s3:bucket/prefix", "file:data"]
)
def test_an_address_without_its_slashes_becomes_no_folder(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (lambda: kvwal.open(typed), lambda: kvwal.open("data", archive=typed), lambda: open_objects(typed)):
        with pytest.raises(kvwal.ConfigError, match=r"would become a folder here\. Write \w+://.*, or \./"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("typed", ["./localhost:5701", "2026-01-31T12:30", "2026-01-31T12:30:00", "a:b", "x:5701/y"])
def test_a_folder_with_a_colon_is_a_folder(typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with kvwal.open(typed, archive=None) as store:
        store.map("notes")["a"] = 1
    assert run("get", typed, "notes", "a").out == "1\n"


@pytest.mark.parametrize("inside", ["default", "default/local", "default/local/notes", "default/local/notes/local"])
def test_a_folder_of_a_store_is_no_root(inside: str, tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "data", archive=None) as store:
        store.map("notes")["a"] = 1
    with pytest.raises(kvwal.ConfigError, match=f"of the store {tmp_path / 'data'}"):
        kvwal.open(tmp_path / "data" / inside).map("notes")
    with pytest.raises(kvwal.ConfigError, match="is among the logs of the root"):
        kvwal.open(tmp_path / "data", archive=tmp_path / "data" / inside)


def test_a_home_is_expanded_in_roots_archives_and_locations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with kvwal.open("~/data", archive="~/archive") as store:
        assert store.root == tmp_path / "home" / "data"
        store.map("notes")["a"] = 1
        store.archive()
    assert list((tmp_path / "home" / "archive").rglob("*.parquet"))
    assert parse_location(OS_DISK, "~/data") == FolderLocation(tmp_path / "home" / "data")
    assert run("get", "~/data", "notes", "a").out == "1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    with pytest.raises(kvwal.ConfigError, match="names the home of a user that is not known"):
        kvwal.open("~nobody-has-this-name/data")


def test_an_empty_location_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("put", "", "notes", "a", "1")
    assert (ran.code, "the location is an empty name" in ran.err) == (2, True)
    assert not list(tmp_path.iterdir())


OF_A_FOLDER: list[tuple[str | None, ...]] = [
    ("checkpoint", None),
    ("archive", "run", None),
    ("log", "verify", None),
    ("backup", None, "copy"),
    ("backup", "root", None),
    ("bench", None),
    ("log", "repair", "root", "--into", None),
    ("export", "root", "notes", None),
    ("log", "verify", "root", "--resume", None),
    ("record", "root", "--spool", None),
    ("node", None, "--address", "127.0.0.1:1", "--node", "n"),
]
OF_A_LOCATION: list[tuple[str | None, ...]] = [
    ("get", None, "notes", "a"),
    ("stats", None),
    ("archive", "list", None),
    ("archive", "list", "root", "--archive", None),
    ("restore", None, "new"),
    ("restore", "archive", None),
]


@pytest.mark.parametrize(
    ("words", "typed", "said"),
    [
        *((words, "", "is an empty name") for words in (*OF_A_FOLDER, *OF_A_LOCATION)),
        *((words, "s3://bucket/x", "is the address of a cluster or of an archive") for words in OF_A_FOLDER),
        (("checkpoint", None), "kvwal://127.0.0.1:1", "is the address of a cluster or of an archive"),
    ],
    ids=str,
)
def test_no_command_takes_an_empty_name_or_an_address_for_a_folder(
    words: tuple[str | None, ...], typed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with kvwal.open("root", archive=None) as store:
        store.map("notes")["a"] = 1
    before = sorted(tmp_path.rglob("*"))
    ran = run(*(typed if word is None else word for word in words))
    assert (ran.code, said in ran.err) == (2, True), (ran.out, ran.err)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_home_is_expanded_wherever_a_folder_or_file_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    with kvwal.open("~/root", archive="~/archive") as store:
        store.map("notes")["a"] = 1
    assert run("archive", "run", "~/root", "--archive=~/archive").code == 0
    for words in (
        ("checkpoint", "~/root"),
        ("backup", "~/root", "~/copy"),
        ("export", "~/root", "notes", "~/notes.jsonl"),
        ("archive", "list", "~/archive"),
        ("archive", "list", "~/root", "--archive=~/archive"),
        ("doctor", "~/root", "--archive=~/archive"),
        ("restore", "~/archive", "~/again"),
    ):
        assert run(*words).code == 0, words
    (home / "token").write_text("0123456789abcdef\n")
    assert find_token("~/token") is not None
    assert find_authority({"KVWAL_AUTHORITY": "~/a.pem"}) == str(home / "a.pem")
    assert default_spool({"XDG_STATE_HOME": "~/state"}) == home / "state" / "kvwal"
    archive = {"archive": "~/archive", "business": "notes"}
    assert read_options(archive).archive == str(home / "archive")
    assert stream_options(archive).archive == str(home / "archive")
    assert write_options({"store": "~/root", "business": "b", "staging": "~/staging"}).staging == str(home / "staging")
    assert write_options({"store": "~/root", "business": "b"}).store == str(home / "root")
    assert open_folder("~/logs").url == str(home / "logs")
    assert open_objects("~/archive").url == str(home / "archive")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_an_empty_name_is_no_folder_of_spark_or_of_an_archive() -> None:
    for call in (
        lambda: open_objects(""),
        lambda: open_folder(""),
        lambda: kvwal.open("root", archive=""),
        lambda: kvwal.restore("", "root"),
    ):
        with pytest.raises(kvwal.ConfigError, match="is an empty name"):
            call()
