"""The contestants: what each is called, what it runs in, what it can do, and how to install it where it is missing."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import Literal

import msgspec

from benchmarks.peers import java

Kind = Literal["bare", "python", "java", "server"]
Ability = Literal["transactions", "reads", "ranges", "ttl", "recovery", "size"]

STORE: frozenset[Ability] = frozenset({"transactions", "reads", "ranges", "recovery", "size"})
EXTRA = "pip install 'kvwal[peers]'"
DEBIAN = "apt-get install"


class Contestant(msgspec.Struct, frozen=True):
    """A store or a log. `needs` are the modules, commands or jars without which it is skipped."""

    name: str
    label: str
    kind: Kind
    abilities: frozenset[Ability] = frozenset()
    modules: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    package: str = ""

    def missing(self) -> str | None:
        """Why it cannot take part, with what installs it; None if it can."""
        absent = [name for name in self.modules if find_spec(name) is None]
        if absent:
            return f"{self.label} is skipped: the module {absent[0]} is not installed. {EXTRA} brings it."
        absent = [name for name in self.commands if shutil.which(name) is None]
        if absent:
            return f"{self.label} is skipped: {absent[0]} is not on the PATH. {DEBIAN} {self.package} brings it."
        if self.kind == "java" and (reason := java.unavailable()):
            return f"{self.label} is skipped: {reason}"
        return None


LOG: frozenset[Ability] = frozenset({"transactions", "recovery", "size"})
REDIS = ("redis-server", "redis-benchmark")
_ALL = (
    Contestant("bare", "bare loop", "bare"),
    Contestant("kvwal", "kvwal", "python", STORE | {"ttl"}),
    Contestant("seatunnel", "SeaTunnel with fsync", "java", LOG - {"transactions"}),
    Contestant("nifi-sequential", "NiFi SequentialAccess", "java", LOG),
    Contestant("nifi-minimal-locking", "NiFi MinimalLocking", "java", LOG),
    Contestant("flume", "Flume file channel", "java", LOG - {"size"}),
    Contestant("redis", "Redis, AOF always", "server", STORE - {"ranges"} | {"ttl"}, ("redis",), REDIS, "redis"),
    Contestant("etcd", "etcd", "server", STORE, ("grpc",), ("etcd",), "etcd-server"),
    Contestant("rocksdb", "RocksDB", "python", STORE, ("rocksdict",)),
    Contestant("sqlite", "SQLite, WAL FULL", "python", STORE),
    Contestant("lmdb", "LMDB", "python", STORE, ("lmdb",)),
    Contestant("diskcache", "diskcache", "python", STORE - {"ranges"} | {"ttl"}, ("diskcache",)),
)  # fmt: skip
CONTESTANTS = {contestant.name: contestant for contestant in _ALL}


def able(*abilities: Ability) -> list[str]:
    """The names of those that can do all of these, in the order of the table; kvwal is among them."""
    return [name for name, contestant in CONTESTANTS.items() if set(abilities) <= contestant.abilities]


def present(names: list[str]) -> tuple[list[str], list[str]]:
    """Of these, the ones that can take part, and a sentence for each of the others."""
    sentences = {name: CONTESTANTS[name].missing() for name in names}
    here = [name for name, sentence in sentences.items() if sentence is None]
    return here, [sentence for sentence in sentences.values() if sentence is not None]
