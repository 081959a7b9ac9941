"""An S3 server that answers three members wrong for a while: nothing acknowledged is lost, and nothing wrong is archived or read.

A flipped bit within a listing cannot be seen, as S3 has no checksum of it: only TLS guards that. So bits are flipped in the
bodies of objects only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

import kvwal
from kvwal.location.archived import ArchiveReader
from kvwal_archive.errors import ArchiveError
from kvwal_archive.objects import open_objects
from tests.support.archive import s3
from tests.support.archive.members import check_archive, contents, past, wait_archived
from tests.support.archive.proxy import Choose, Proxy, proxied
from tests.support.cluster.faults import loaded
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast

pytestmark = [needs_hazelcast, pytest.mark.long]
SOON = "[log]\narchive_seconds = 1\n"
BURST, BETWEEN = 12, 4
"""While members archive, the proxy answers `BURST` of their requests wrongly, then `BETWEEN` of them rightly, and so on."""
BURST_OF_READS, BETWEEN_READS = 2, 11
"""The same while the archive is read: most requests are made three times, and some reads are to be right."""
LEAST = 24
"""The server is well again after this number of wrong answers."""
OF_OBJECTS = ("flipped", "short")
READS = 2


class Archive(NamedTuple):
    """Three members that serve, the server of their archive behind a proxy, and the archive's URL."""

    members: Cluster
    server: s3.Server
    proxy: Proxy
    url: str

    def reader(self, endpoint: str) -> ArchiveReader:
        """The archive as a location."""
        return ArchiveReader(open_objects(self.url, self.options(endpoint)), "default", CLUSTER, None)

    def options(self, endpoint: str) -> dict[str, Any]:
        return self.server._replace(endpoint=endpoint).options()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """Each test leaves all members serving, and the server well."""
    server = s3.server()
    with ExitStack() as stack:
        proxy = stack.enter_context(proxied(server.endpoint))
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in server._replace(endpoint=proxy.url).environment().items():
            environment.setenv(name, value)
        url = f"{s3.bucket(server)}/archive"
        made = stack.enter_context(cluster(tmp_path_factory.mktemp("s3"), 3, url=url, config=SOON))
        yield Archive(made, server, proxy, url)


def in_bursts(what: str, burst: int = BURST, between: int = BETWEEN) -> Choose:
    """Of the requests that this can meet, some in a row are met, and some are not."""
    turns = itertools.cycle([what] * burst + [None] * between)

    def choose(method: str, path: str) -> str | None:
        met = what not in OF_OBJECTS or (method == "GET" and path.endswith((".parquet", "/_log")))
        return next(turns) if met else None

    return choose


def well(method: str, path: str) -> None:
    """Every request is passed on."""


def right_or_refused(read: Callable[[], object], wanted: object, url: str) -> bool:
    """Whether a read was right; otherwise it said of which object of the archive, or of which archive, it could not be."""
    try:
        found = read()
    except ArchiveError as error:
        said = str(error)
    else:
        assert found == wanted
        return True
    assert any(name in said for name in (url, ".parquet", "/_log")), said
    return False


def check_reads(archive: Archive, name: str, fault: str) -> None:
    """Scans and histories of the archive while its answers are wrong, by a location and by a member."""
    sound = archive.reader(archive.server.endpoint).read_business(name)
    wanted = contents(sound)
    key = min(wanted)
    changes = [entry.timestamp for entry in past(sound, key)]
    through = archive.reader(archive.proxy.url)
    with kvwal.connect(archive.members.addresses, cluster=CLUSTER) as store:
        reads: list[tuple[Callable[[], object], object]] = [
            (lambda: contents(through.read_business(name)), wanted),
            (lambda: [entry.timestamp for entry in past(through.read_business(name), key)], changes),
            (lambda: through.read_business(name).count(), len(wanted)),
            (lambda: [entry.timestamp for entry in store.map(name).history(key)], changes),
        ]
        archive.proxy.choose = in_bursts(fault, BURST_OF_READS, BETWEEN_READS)
        told = [right_or_refused(read, answer, archive.url) for _ in range(READS) for read, answer in reads]
        archive.proxy.choose = well
        assert all(right_or_refused(read, answer, archive.url) for read, answer in reads)
    print(f"{fault}: {told.count(True)} reads were right, {told.count(False)} were refused")


@pytest.mark.parametrize("fault", ["503 SlowDown", "page", *OF_OBJECTS])
def test_nothing_is_lost_and_nothing_wrong_is_archived_or_read(archive: Archive, fault: str) -> None:
    name = fault.replace(" ", "-")
    pids = [node.pid for node in archive.members.nodes]
    with loaded(archive.members, name) as load:
        load.wait()
        met = archive.proxy.met[fault]
        archive.proxy.choose = in_bursts(fault)
        load.wait()
        archive.proxy.wait_for(fault, met + LEAST)
        load.wait()
        archive.proxy.choose = well
        load.wait()
    wait_archived(archive.members.nodes, name, f"{name}-checked")
    sound = open_objects(archive.url, archive.options(archive.server.endpoint))
    check_archive(sound, archive.members, load.writers, name, f"{name}-checked")
    check_reads(archive, name, fault)
    assert [node.pid for node in archive.members.nodes] == pids
