"""The archive on a real S3 server: races, wrong keys, silence, damage, and the whole way there and back."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from gc import collect
from pathlib import Path

import pyarrow as pa
import pytest

import kvwal as library
from kvwal_archive import registry
from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ArchiveGap, ConfigError
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Span, object_key
from kvwal_archive.maintenance.compaction import gc, rewrite
from kvwal_archive.merge import latest_plain
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.objects.remote import RemoteObjects
from kvwal_archive.parquet.rows import node_schema, seal_object
from kvwal_archive.reader import coverage, live_objects
from kvwal_archive.registry import Registration
from kvwal_archive.restore import restore_batches
from kvwal_archive.verify import verify
from kvwal_archive.view import history, latest
from tests.support.archive import s3
from tests.support.archive.history import LOG, PLACE, fill, from_table, merged, place, put, rows
from tests.support.archive.proxy import proxied
from tests.support.cli import kvwal
from tests.support.polling import until
from tests.support.ports import free_port

WHERE = ("ns", "local", "jobs")


@pytest.fixture(scope="module")
def server() -> s3.Server:
    return s3.server()


@pytest.fixture
def url(server: s3.Server) -> str:
    return f"{s3.bucket(server)}/some/prefix"


@pytest.fixture
def objects(server: s3.Server, url: str) -> Objects:
    return open_objects(url, server.options())


def overwrite(server: s3.Server, url: str, key: str, data: bytes) -> None:
    """What no program of ours does: other bytes under the same key."""
    s3.filesystem(server).pipe_file(f"{url.removeprefix('s3://')}/{key}", data)


def test_connections_are_closed_in_their_own_loop(
    server: s3.Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Fsspec's loop is not that of a program with asyncio, whose thread may be the one that collects."""

    async def opens_and_drops() -> None:
        objects = RemoteObjects(url, server.options())
        objects.put_if_absent("a", b"1")
        connections = objects._fs._s3creator._client._endpoint.http_session
        assert connections._sessions
        del objects
        collect()
        await asyncio.to_thread(until, lambda: connections._sessions is None or None)

    asyncio.run(opens_and_drops())
    collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_there_and_back(objects: Objects) -> None:
    stored = fill(objects, place("a"), [(1, 50), (51, 100), (101, 150), (151, 200)])
    fill(objects, place("b"), [(1, 80)])
    everything = rows(1, 200, node="a") + rows(1, 80, node="b")
    expected = merged(latest_plain(everything))
    assert latest(objects, *WHERE).equals(expected)
    (made,) = rewrite(objects, place("a"), now_ms=1000, history_ms=0)
    assert gc(objects, place("a"), now_ms=1 << 46, grace_ms=0) == [item.key for item in stored]
    assert latest(objects, *WHERE).equals(expected)
    assert verify(objects) == (2, 280, [])
    result = restore_batches(objects, *WHERE)
    assert pa.Table.from_batches(result.batches, schema=node_schema()).equals(expected)
    assert result.positions == {"a": 200, "b": 80}
    wanted = sorted((row for row in everything if row.key == b"key-002"), key=lambda row: row.age, reverse=True)
    assert from_table(history(objects, *WHERE, key_class="str", key=b"key-002")) == wanted
    assert [item.key for item in objects.list("")] == [
        made.key,
        "ns/local/jobs/a/_log",
        object_key(place("b"), Span(1, 80)),
        "ns/local/jobs/b/_log",
    ]


def test_the_footers_of_many_objects_are_asked_for_at_once(server: s3.Server, url: str) -> None:
    """None is answered before all have been asked for."""
    fill(open_objects(url, server.options()), PLACE, [(first, first + 9) for first in range(1, 100, 10)])
    with proxied(server.endpoint) as proxy, ThreadPoolExecutor(1) as pool:
        objects = open_objects(url, server._replace(endpoint=proxy.url).options())
        proxy.choose = lambda method, path: "held" if method == "GET" and path.endswith(".parquet") else None
        read = pool.submit(live_objects, objects, PLACE)
        proxy.wait_for("waiting", 10)
        proxy.go_on()
        assert [info.span.first for info in read.result()] == list(range(1, 100, 10))


def test_one_request_of_many_that_fails_is_made_again(server: s3.Server, url: str) -> None:
    fill(open_objects(url, server.options()), PLACE, [(1, 10), (11, 20)])
    refused = iter(["500"])
    with proxied(server.endpoint) as proxy:
        objects = open_objects(url, server._replace(endpoint=proxy.url).options())
        proxy.choose = lambda method, path: next(refused, None) if path.endswith("20.parquet") else None
        assert [info.span.first for info in live_objects(objects, PLACE)] == [1, 11]
        assert proxy.met["500"] == 1


def test_the_environment_is_enough(server: s3.Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    objects = open_objects(url)
    fill(objects, PLACE, [(1, 10)])
    assert coverage(objects, PLACE, LOG).last == 10


def test_an_object_is_put_once_and_never_changed(objects: Objects) -> None:
    assert objects.put_if_absent("a/b", b"first")
    assert not objects.put_if_absent("a/b", b"second")
    assert objects.read("a/b") == b"first"


@pytest.mark.long
def test_of_many_who_put_one_key_one_wins(server: s3.Server, url: str) -> None:
    for key in ("race-1", "race-2"):
        barrier = threading.Barrier(4)
        won: list[int] = []

        def put_one(number: int, key: str = key, barrier: threading.Barrier = barrier, won: list[int] = won) -> None:
            objects = open_objects(url, server.options())
            barrier.wait()
            if objects.put_if_absent(key, b"%d" % number):
                won.append(number)

        threads = [threading.Thread(target=put_one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert open_objects(url, server.options()).read(key) == b"%d" % won[0]


@pytest.mark.long
def test_of_many_logs_one_registers(server: s3.Server, url: str) -> None:
    barrier = threading.Barrier(3)
    outcome: dict[str, str] = {}

    def register(log_id: str) -> None:
        objects = open_objects(url, server.options())
        barrier.wait()
        try:
            registry.register(objects, PLACE, log_id)
        except ConfigError as error:
            outcome[log_id] = str(error)
        else:
            outcome[log_id] = "owner"

    threads = [threading.Thread(target=register, args=(f"log-{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owner = registry.owner(open_objects(url, server.options()), PLACE)
    assert isinstance(owner, Registration)
    assert outcome.pop(owner.log_id) == "owner"
    assert all("belongs to another log" in text for text in outcome.values())


def test_confirm_is_by_size_and_checksum(server: s3.Server, objects: Objects, url: str) -> None:
    objects.put_if_absent("a", b"123")
    objects.confirm("a", b"123")
    with pytest.raises(ArchiveDamaged, match="it has 3 bytes, 2 were put"):
        objects.confirm("a", b"12")
    overwrite(server, url, "a", b"124")
    with pytest.raises(ArchiveDamaged, match="its bytes differ"):
        objects.confirm("a", b"123")
    with pytest.raises(ObjectMissing):
        objects.confirm("b", b"")


def test_a_put_that_the_server_lost_is_not_confirmed(
    server: s3.Server, objects: Objects, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register(objects, PLACE, LOG)
    real_put = type(objects).put_if_absent

    def lossy(self: Objects, key: str, data: bytes) -> bool:
        return real_put(self, key, data[: len(data) // 2])

    monkeypatch.setattr(type(objects), "put_if_absent", lossy)
    with pytest.raises(ArchiveDamaged, match="is not what was put there"):
        put(objects, PLACE, 1, 50)


@pytest.mark.long
def test_an_object_of_several_parts_is_confirmed_by_reading_it_back(objects: Objects) -> None:
    data = os.urandom(1 << 20) * 101
    assert objects.put_if_absent("large", data)
    assert "-" in str(objects.list("large")[0].etag)
    objects.confirm("large", data)
    assert not objects.put_if_absent("large", data)
    with pytest.raises(ArchiveDamaged, match="its bytes differ"):
        objects.confirm("large", data[:-1] + b"\0" if data[-1] else data[:-1] + b"\1")


SECRETS = ("wrong-secret", "kvwal-test-secret", "wrong-key", "kvwal-test-key")


@pytest.mark.parametrize("wrong", [{"secret": "wrong-secret"}, {"key": "wrong-key"}])
def test_a_wrong_key_is_a_sentence_without_the_key(server: s3.Server, url: str, wrong: dict[str, str]) -> None:
    objects = open_objects(url, server.options(**wrong))
    for call in (
        lambda: objects.list(""),
        lambda: objects.put_if_absent("a", b""),
        lambda: objects.read("a"),
        lambda: objects.open("a"),
    ):
        with pytest.raises(ArchiveError, match="refused access: a wrong key or secret") as caught:
            call()
        assert not any(secret in str(caught.value) + repr(caught.value) for secret in SECRETS)
        assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_a_missing_bucket_is_named(server: s3.Server) -> None:
    objects = open_objects("s3://nobody-made-this-one/prefix", server.options())
    for call in (lambda: objects.list(""), lambda: registry.register(objects, PLACE, LOG), lambda: verify(objects)):
        with pytest.raises(ArchiveError, match=r"s3://nobody-made-this-one/prefix: there is no such bucket"):
            call()


def test_a_name_that_no_bucket_can_have_is_a_setting(server: s3.Server) -> None:
    with pytest.raises(ArchiveError, match="Correct the archive's URL"):
        open_objects("s3://A_b!/prefix", server.options()).list("")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.long
def test_an_endpoint_that_never_answers_is_given_up(server: s3.Server, url: str, silent_port: int) -> None:
    quick = {"connect_timeout": 0.2, "read_timeout": 0.2}
    options = server.options(endpoint_url=f"http://127.0.0.1:{silent_port}", config_kwargs=quick)
    objects = open_objects(url, options)
    for call in (
        lambda: objects.list(""),
        lambda: objects.put_if_absent("a", b"1"),
        lambda: objects.read("a"),
        lambda: objects.open("a"),
    ):
        with pytest.raises(ArchiveError, match=f"{url} does not answer") as caught:
            call()
        assert not any(secret in str(caught.value) for secret in SECRETS)


@pytest.mark.long
def test_an_endpoint_without_a_server_is_given_up(server: s3.Server, url: str) -> None:
    objects = open_objects(url, server.options(endpoint_url=f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(ArchiveError, match="does not answer"):
        registry.register(objects, PLACE, LOG)


@pytest.mark.parametrize("cut", [0, 100, -1])
def test_a_truncated_object_is_damage(server: s3.Server, objects: Objects, url: str, cut: int) -> None:
    stored = fill(objects, PLACE, [(1, 50), (51, 100)])
    overwrite(server, url, stored[0].key, objects.read(stored[0].key)[:cut])
    for call in (
        lambda: latest(objects, *WHERE),
        lambda: put(objects, PLACE, 1, 50),
        lambda: coverage(objects, PLACE, LOG),
    ):
        with pytest.raises(ArchiveDamaged, match=f"{stored[0].key}: cut short"):
            call()
    assert ("damaged", stored[0].key) in [finding[:2] for finding in verify(objects).findings]


def test_a_flipped_bit_is_found_by_readers_of_all_and_of_one_key(server: s3.Server, objects: Objects, url: str) -> None:
    (stored,) = fill(objects, PLACE, [(1, 200)])
    whole = objects.read(stored.key)
    overwrite(server, url, stored.key, whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    for call in (
        lambda: latest(objects, *WHERE),
        lambda: restore_batches(objects, *WHERE),
        lambda: history(objects, *WHERE, key_class="str", key=b"key-001"),
    ):
        with pytest.raises(ArchiveDamaged, match=stored.key):
            call()


def test_an_object_of_a_newer_version_says_so(server: s3.Server, objects: Objects, url: str) -> None:
    (stored,) = fill(objects, PLACE, [(1, 50)])
    data = seal_object(objects.read(stored.key).replace(b'{"format":1,', b'{"format":9,'))
    overwrite(server, url, stored.key, data)
    with pytest.raises(ArchiveError, match=r"newer version: format 9.*Update kvwal"):
        latest(objects, *WHERE)
    assert [finding.kind for finding in verify(objects).findings] == ["newer"]


def test_another_log_may_not_write_here(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50)])
    with pytest.raises(ConfigError, match="belongs to another log"):
        put(objects, PLACE, 51, 60, "stranger")
    registry.take_over(objects, PLACE, "log-2", 51)
    with pytest.raises(ConfigError, match="took over"):
        put(objects, PLACE, 51, 60, LOG)
    put(objects, PLACE, 51, 60, "log-2")
    assert coverage(objects, PLACE, "log-2").last == 60


def test_an_object_deleted_in_the_middle_is_a_gap_by_name(objects: Objects) -> None:
    stored = fill(objects, PLACE, [(1, 50), (51, 100), (101, 150)])
    objects.delete(stored[1].key)
    for call in (lambda: latest(objects, *WHERE), lambda: restore_batches(objects, *WHERE)):
        with pytest.raises(ArchiveGap, match="sequences 51–100 are in no object"):
            call()
    assert coverage(objects, PLACE, LOG).last == 50
    assert [(finding.kind, finding.text) for finding in verify(objects).findings] == [
        ("gap", "Sequences 51–100 are in no object.")
    ]
    put(objects, PLACE, 51, 100)
    assert [info.span for info in live_objects(objects, PLACE)] == [Span(1, 50), Span(51, 100), Span(101, 150)]


def test_the_commands_that_read_take_a_bucket(
    server: s3.Server, objects: Objects, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(objects, place("a"), [(1, 50)])
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    names = ("--namespace", WHERE[0])
    exported = kvwal("export", url, WHERE[2], *names)
    live = [row for row in latest_plain(rows(1, 50, node="a")) if not row.deleted]
    assert (exported.code, len(exported.out.splitlines())) == (0, len(live)), exported.err
    ran = kvwal("stats", url, *names, "--json")
    assert f'"archive":"{url}"' in ran.out
    refused = kvwal("put", url, WHERE[2], "a", "1", *names)
    assert (refused.code, "an archive can only be read here" in refused.err) == (2, True)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS[0])
    s3.filesystem(server).clear_instance_cache()
    wrong = kvwal("get", url, WHERE[2], "a", *names)
    assert (wrong.code, "refused access: a wrong key or secret" in wrong.err, SECRETS[0] in wrong.err) == (
        2,
        True,
        False,
    )


@pytest.mark.long
def test_a_bucket_is_a_location(server: s3.Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that only read give the same answers from it as from the folder that was archived there."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    with library.open(root, archive=url) as store:
        store.map("jobs").update({"a": {"n": 1}, "b": [1, None]})
        store.map("jobs")["a"] = 2
    for command in (("get", "jobs", "a"), ("history", "jobs", "a", "--json"), ("scan", "jobs", "--json"),
                    ("query", "SELECT * FROM jobs ORDER BY key", "--json")):  # fmt: skip
        expected = kvwal(command[0], root, *command[1:], "--archive", url)
        assert expected.code == 0, expected.err
        assert kvwal(command[0], url, *command[1:]) == expected
    assert kvwal("put", url, "jobs", "a", "3").code == 2


def test_a_large_file_is_put_in_parts(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is confirmed like any object, and a key that is taken stays as it is."""
    monkeypatch.setattr("kvwal_archive.objects.remote.SINGLE_PUT_BYTES", 1 << 20)
    large, other = tmp_path / "large", tmp_path / "other"
    data = os.urandom(20 << 20)
    large.write_bytes(data)
    other.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert objects.put_if_absent("large", large)
    objects.confirm("large", large)
    assert not objects.put_if_absent("large", other)
    with pytest.raises(ArchiveDamaged, match="its bytes differ"):
        objects.confirm("large", other)
    assert objects.read("large") == data
