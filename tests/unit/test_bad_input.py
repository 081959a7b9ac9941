"""Roots, names and files that cannot be used: each is a named error with a sentence, before anything is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import kvwal
from archive.layout import Place
from kvwal.errors import ConfigError, CorruptLog, InvalidName, KvwalError, NewerVersion, StoreClosed, StoreLocked
from kvwal.log.format import Header, pack_header
from kvwal.log.names import log_folder, segment_name, snapshot_name
from tests.support.faults import open_store

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = {
    "parent": "..", "here": ".", "slash": "a/b", "backslash": "a\\b", "empty": "", "underscore": "_x", "hidden": ".x",
    "dash": "-x", "long": "x" * 200, "nul": "a\0b", "letter": "ü", "space": "a b", "line": "a\n", "star": "*", "absolute": "/etc",
}  # fmt: skip


@pytest.mark.parametrize("what", ["namespace", "cluster", "node", "business"])
@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_becomes_no_path(tmp_path: Path, what: str, name: str) -> None:
    root = tmp_path / "root"
    with pytest.raises(InvalidName, match=f"The {what} name .*Choose another name"):
        open_with(root, what, name)
    assert not root.exists()
    assert list(tmp_path.iterdir()) == []


def open_with(root: Path, what: str, name: str) -> None:
    """Use `name` as the name of a namespace, cluster, node or business."""
    names = {} if what == "business" else {what: name}
    with kvwal.open(root, archive=None, **names) as store:
        store.map(name if what == "business" else "b")


@pytest.mark.parametrize("name", ["a", "0", "%2F", "@x", "+", "a.b", "a..b", "a_b-c", "x" * 128])
def test_every_legal_name_comes_back(tmp_path: Path, name: str) -> None:
    with kvwal.open(tmp_path, namespace=name, cluster=name, node=name, archive=None) as store:
        store.map(name)["a"] = 1
    with kvwal.open(tmp_path, namespace=name, cluster=name, archive=None) as store:
        assert (store.businesses(), store.map(name)["a"]) == ([name], 1)
        assert store.stats()["node"] == name


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.write_bytes(b"mine")
    with pytest.raises(ConfigError, match="is a file, and a root is a folder"):
        kvwal.open(root)
    with pytest.raises(ConfigError, match="is a file"):
        kvwal.restore(tmp_path, root)
    assert root.read_bytes() == b"mine"


@pytest.mark.parametrize("taken", ["default", "default/local", "default/local/b", "default/local/b/local"])
def test_a_file_on_the_way_to_the_log(tmp_path: Path, taken: str) -> None:
    path = tmp_path / taken
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine")
    with kvwal.open(tmp_path, archive=None) as store, pytest.raises(ConfigError, match="is a file, not a folder"):
        store.map("b")
    assert path.read_bytes() == b"mine"


UNWRITABLE = """
import os, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
import kvwal
from kvwal.errors import ConfigError
try:
    with kvwal.open(sys.argv[1], archive=None) as store:
        store.map("b")
except ConfigError as error:
    print(error)
"""


def test_a_root_that_may_not_be_written(tmp_path: Path) -> None:
    """As somebody who is not root, whom nothing refuses."""
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o111)
    root = tmp_path / "root"
    root.mkdir(mode=0o555)
    loaded = "import archive.layout, kvwal.store\n" + UNWRITABLE
    done = subprocess.run(
        [sys.executable, "-c", loaded, str(root)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert "not allowed to write here" in done.stdout, done.stderr
    assert list(root.iterdir()) == []


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
        (segment_name(1), b"".join(pack_header(header(format=2))), NewerVersion),
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
    """The error names the file, or its folder, and the file stays as it is, whoever opens the store."""
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


def test_a_locked_log_names_who_holds_it(tmp_path: Path) -> None:
    program = (
        "import sys, kvwal\n"
        "with kvwal.open(sys.argv[1], archive=None) as store:\n"
        "    store.map('b')['a'] = 1\n"
        "    print(flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with kvwal.open(tmp_path, archive=None) as store:
            with pytest.raises(StoreLocked, match=rf"held by pid {holder.pid} on {os.uname().nodename}"):
                store.map("b")
            store.map("other")["b"] = 2  # the lock is of one business
        with kvwal.open(tmp_path, read_only=True) as reader:
            assert reader.map("b")["a"] == 1
        holder.kill()
    with kvwal.open(tmp_path, archive=None) as store:
        assert store.map("b")["a"] == 1


def test_one_process_cannot_open_a_log_twice(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as first, kvwal.open(tmp_path, archive=None) as second:
        first.map("b")
        with pytest.raises(StoreLocked, match=f"pid {os.getpid()} "):
            second.map("b")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = kvwal.open(tmp_path, archive=None)
    b = store.map("b")
    b["a"] = 1
    store.close()
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: b.put("a", 2), lambda: b.submit("a", 2), lambda: b.delete("a"), lambda: b.put_if_absent("z", 1),
        lambda: b.put_many({"a": 2}),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(StoreClosed, match="nothing was written"):
            call()
    assert b["a"] == 1
    with kvwal.open(tmp_path, archive=None) as again:
        assert dict(again.map("b")) == {"a": 1}


def test_several_nodes_without_a_choice_are_listed(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        with kvwal.open(tmp_path, node=node, archive=None) as store:
            store.map("b")[node] = 1
    with pytest.raises(ConfigError, match="n1, n2"):
        kvwal.open(tmp_path)
    with kvwal.open(tmp_path, read_only=True) as store:
        assert dict(store.map("b")) == {"n1": 1, "n2": 1}
        with pytest.raises(ConfigError, match="read_only"):
            store.map("b")["x"] = 1
        with pytest.raises(ConfigError, match="there are: b"):
            store.map("c")


@pytest.mark.parametrize("flush", ["fsync", "", None, 5])
def test_a_flush_policy_that_is_none(tmp_path: Path, flush: object) -> None:
    with pytest.raises(ConfigError, match="no flush policy"):
        open_store(tmp_path, flush=flush)


@pytest.mark.parametrize("setting", [*kvwal.Settings.__struct_fields__])
@pytest.mark.parametrize("value", [0, -1, "1", None, True])
def test_a_setting_that_cannot_work(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=setting):
        kvwal.Settings(**{setting: value})  # type: ignore[arg-type]


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        kvwal.Settings().segment_bytes = 1  # type: ignore[misc]
    assert msgspec.structs.asdict(kvwal.Settings()) == msgspec.structs.asdict(kvwal.Settings())
