"""A store and its archive on a real S3 server that fails, is slow, loses its answers, is killed and started again, or from which
somebody deletes an object; and an archiver that is killed in the middle of an upload.

Writes go on meanwhile. Afterwards everything acknowledged is in the archive, and nothing is silently missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal_archive.errors import ArchiveError, ArchiveGap
from kvwal_archive.maintenance import compaction as rewrite
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.verify import verify
from kvwal_archive.view import latest
from tests.support.archive import s3
from tests.support.archive.archiver import PLACE, archivers, business
from tests.support.archive.proxy import Proxy, proxied

SETTINGS = kvwal.Settings(segment_bytes=1 << 20, archive_seconds=1e9, checkpoint_seconds=1e9)
THREADS = 2
FAR_MS = 1 << 46
READ_S = 2
Known = dict[str, str]


@pytest.fixture(scope="module")
def server() -> s3.Server:
    return s3.server()


@pytest.fixture
def proxy(server: s3.Server) -> Iterator[Proxy]:
    with proxied(server.endpoint) as found:
        yield found


def through(server: s3.Server, proxy: Proxy) -> dict[str, Any]:
    """Storage options that go through the proxy, and do not wait long."""
    config = {"s3": {"addressing_style": "path"}, "connect_timeout": 2, "read_timeout": READ_S}
    return server._replace(endpoint=proxy.url).options(config_kwargs=config)


class Writing:
    """Threads that write all the time; `known` is what was acknowledged."""

    def __init__(self, store: kvwal.Store) -> None:
        self.known: Known = {}
        self._b = store.map("b")
        self._end = threading.Event()
        self._wrote = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._write, args=(name,)) for name in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _write(self, name: int) -> None:
        count = 0
        while not self._end.is_set():
            count += 1
            key, value = f"{name}-{count % 20}", f"{count}".ljust(100)
            self._b[key] = value
            self.known[key] = value
            self._wrote.release()

    def some(self) -> None:
        """Return when some more were acknowledged."""
        while self._wrote.acquire(blocking=False):
            pass
        for _ in range(40):
            assert self._wrote.acquire(timeout=60), "writes do not go on"

    def end(self) -> None:
        """Every thread has ended by itself."""
        self._end.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def writing(root: Path, url: str, options: dict[str, Any]) -> Iterator[tuple[kvwal.Store, Writing]]:
    """A store under load that archives when it is told to."""
    with kvwal.open(root, archive=url, storage_options=options, settings=SETTINGS) as store:
        writes = Writing(store)
        try:
            yield store, writes
        finally:
            writes.end()
            store.close(archive=False)


def archived(store: kvwal.Store, writes: Writing) -> None:
    """Writes have ended, and the archive has all of them."""
    writes.end()
    store.archive()
    assert (business(store)["archive_lag_entries"], business(store)["archive_error"]) == (0, None)


def is_whole(server: s3.Server, url: str, known: Known, fresh: Path) -> None:
    """The archive has nothing wrong with it, and a restore is what was acknowledged."""
    assert verify(open_objects(url, server.options())).findings == []
    kvwal.restore(url, fresh, storage_options=server.options())
    with kvwal.open(fresh, archive=None) as store:
        assert dict(store.map("b")) == known


def refused(job: Callable[[], object], *words: str) -> str:
    """What the error says that the job must meet."""
    with pytest.raises(ArchiveError) as caught:
        job()
    assert all(word in str(caught.value) for word in words), str(caught.value)
    return str(caught.value)


def of_each(count: int, what: str, *methods: str) -> Callable[[str, str], str | None]:
    """Do `what` to the first `count` requests of every object with one of these methods."""
    seen: dict[tuple[str, str], int] = {}

    def choose(method: str, path: str) -> str | None:
        place = (method, path.partition("?")[0])
        seen[place] = seen.get(place, 0) + 1
        return what if method in methods and seen[place] <= count else None

    return choose


def once(what: str) -> Callable[[str, str], str | None]:
    """Do `what` to the first object that is put."""
    left = [what]
    return lambda method, path: left.pop() if method == "PUT" and left else None


@pytest.mark.long
@pytest.mark.parametrize("what", ["500", "lost", "half"])
def test_requests_that_fail_now_and_then_are_made_again(
    what: str, server: s3.Server, proxy: Proxy, tmp_path: Path
) -> None:
    url = f"{s3.bucket(server)}/kvwal"
    proxy.choose = of_each(1, what, "PUT", "GET", "HEAD")
    with writing(tmp_path / "root", url, through(server, proxy)) as (store, writes):
        for _ in range(3):
            writes.some()
            store.archive()
        archived(store, writes)
    assert proxy.met[what] > 3
    objects = open_objects(url, through(server, proxy))
    assert rewrite.rewrite(objects, PLACE, now_ms=FAR_MS, history_ms=0, force=True)
    assert rewrite.gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0)
    is_whole(server, url, writes.known, tmp_path / "fresh")


@pytest.mark.long
@pytest.mark.parametrize("what", ["503", "cut", "held"])
def test_a_server_that_cannot_be_used_costs_no_write(
    what: str, server: s3.Server, proxy: Proxy, tmp_path: Path
) -> None:
    url = f"{s3.bucket(server)}/kvwal"
    with writing(tmp_path / "root", url, through(server, proxy)) as (store, writes):
        writes.some()
        store.archive()
        proxy.choose = lambda method, path: what if method == "PUT" else None
        writes.some()
        refused(store.archive, url, "nothing is dropped")
        lag = business(store)["archive_lag_entries"]
        writes.some()
        assert lag > 0
        assert business(store)["archive_error"]
        proxy.choose = lambda method, path: None
        proxy.go_on()
        archived(store, writes)
    is_whole(server, url, writes.known, tmp_path / "fresh")


@pytest.mark.long
def test_a_server_killed_and_restarted_in_the_middle_of_an_upload_and_of_a_rewrite(tmp_path: Path) -> None:
    with s3.own_server() as mortal, proxied(mortal.server.endpoint) as proxy:
        server = mortal.server
        url = f"{s3.bucket(server)}/kvwal"
        proxy.at_half = mortal.kill
        with writing(tmp_path / "root", url, through(server, proxy)) as (store, writes):
            writes.some()
            store.archive()
            writes.some()
            proxy.choose = once("half")
            refused(store.archive, url, "does not answer")
            writes.some()
            mortal.start()
            store.archive()
            writes.some()
            archived(store, writes)
        objects = open_objects(url, through(server, proxy))
        proxy.choose = once("half")
        refused(lambda: compacted(objects), url, "does not answer")
        mortal.start()
        assert compacted(objects)
        assert proxy.met["half"] == 2
        assert rewrite.gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0)
        is_whole(server, url, writes.known, tmp_path / "fresh")


def compacted(objects: Objects) -> object:
    """What a rewrite of all history makes."""
    return rewrite.rewrite(objects, PLACE, now_ms=FAR_MS, history_ms=0, force=True)


@pytest.mark.long
@pytest.mark.usefixtures("started_archivers")
def test_an_archiver_killed_in_the_middle_of_an_upload(server: s3.Server, proxy: Proxy, tmp_path: Path) -> None:
    url = f"{s3.bucket(server)}/kvwal"
    of_other_stores = set(archivers())
    with writing(tmp_path / "root", url, through(server, proxy)) as (store, writes):
        writes.some()
        store.archive()
        writes.some()
        proxy.choose = lambda method, path: "held" if method == "PUT" else None
        said: list[str] = []
        job = threading.Thread(target=lambda: said.append(refused(store.archive, "died")))
        job.start()
        proxy.wait_for("waiting")
        (child,) = set(archivers()) - of_other_stores
        child.kill()
        job.join()
        assert said
        writes.some()
        proxy.choose = lambda method, path: None
        proxy.go_on()
        archived(store, writes)
    is_whole(server, url, writes.known, tmp_path / "fresh")


@pytest.mark.long
def test_an_object_that_somebody_deleted_is_a_gap_everywhere(server: s3.Server, tmp_path: Path) -> None:
    url = f"{s3.bucket(server)}/kvwal"
    options = server.options()
    with writing(tmp_path / "root", url, options) as (store, writes):
        for _ in range(3):
            writes.some()
            store.archive()
        archived(store, writes)
    objects = open_objects(url, options)
    keys = [item.key for item in objects.list("") if item.key.endswith(".parquet")]
    gone = keys[len(keys) // 2]
    first, last = (int(part) for part in Path(gone).stem.split("-")[:2])
    s3.filesystem(server).rm_file(f"{url.removeprefix('s3://')}/{gone}")
    missing = f"equences {first}–{last} are in no object"
    assert [(finding.kind, finding.text) for finding in verify(objects).findings] == [("gap", f"S{missing}.")]
    where = (PLACE.namespace, PLACE.cluster, PLACE.business)
    reads: list[Callable[[], object]] = [
        lambda: latest(objects, *where),
        lambda: kvwal.restore(url, tmp_path / "fresh", storage_options=options),
    ]
    for read in reads:
        with pytest.raises(ArchiveGap, match=missing):
            read()
    compacted(objects)
    assert rewrite.gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0) is not None
    for read in reads:
        with pytest.raises(ArchiveGap, match=missing):
            read()
    assert not (tmp_path / "fresh" / "default").exists()
