"""Why kvwal misses a target beside a peer, by the workload and the peer. A test asks for a reason of each miss."""

from __future__ import annotations

_COLD = (
    "after each wait for the disk a put takes the interpreter about 55 µs, three times what it takes without the disk; a bare "
    "call of fdatasync takes 10 (docs/decisions/0063-no-compiled-write-path.md)."
)
_MANY_FILES = (
    "MinimalLocking has 64 files and syncs as many of them at once as there are producers, which ext4 does side by side. kvwal "
    "has one log for a map, and threads of Python that write several logs share one interpreter lock: bare threads with 15 µs of "
    "Python between two writes reach 18,000 puts a second in eight files (docs/decisions/0063-no-compiled-write-path.md)."
)
_INTERPRETER = (
    "one interpreter encodes each entry, puts it into memory and answers its producer, about 7 µs a put, and holds its lock "
    "meanwhile; the peer is compiled. Compiling kvwal's own code did not help (docs/decisions/0063-no-compiled-write-path.md)."
)

REASONS: dict[str, str] = {
    "1 producer (threads): bare loop": _COLD,
    "2 producers (threads): bare loop": _COLD,
    "records that move, 100 a transaction: NiFi MinimalLocking": (
        "a move is three entries here: the delete of an item, an item and an entry of a map, so that each queue and the map are "
        "read and restored by themselves. To encode and apply them takes the interpreter about 15 µs a record. NiFi's move "
        "is one update in compiled code, and which queue has a record is known only to the program above its log."
    ),
    "two producers, values of 100 B in 512 MiB: SeaTunnel with fsync": (
        f"{_COLD} SeaTunnel's two producers have a file each here, whose fsyncs go side by side; with one file they lose entries."
    ),
    "two producers, values of 1 MiB in 5 GiB": (
        "half a gigabyte a second comes to a checkpoint every half second, which reads all of it and writes it again to the same "
        "disk. The peers keep their log."
    ),
    "32 producers (threads): NiFi SequentialAccess": (
        f"{_INTERPRETER} The threads of 32 producers also wait for the interpreter's lock."
    ),
    "32 producers (threads): NiFi MinimalLocking": _MANY_FILES,
    "2 producers on 2 maps": _MANY_FILES,
    "8 producers on 8 maps": _MANY_FILES,
    "50 in flight: etcd": (
        "50 wait for one sync on either side, so a slow disk brings the two together: kvwal's lead is in what it does "
        "between two syncs."
    ),
    "1,000 in flight": _INTERPRETER,
    "64 producers (threads)": _INTERPRETER,
    "100 a transaction": _INTERPRETER,
    "1,000 a transaction": (
        "encoding an entry, and putting it into memory, takes Python about 1.5 µs, which is longer than the entry's share of the "
        "sync. RocksDB's batch does both in C++; here only the call that adds an entry is Python's."
    ),
    "64 in flight": _INTERPRETER,
    "recovery of": (
        "one interpreter makes an object of every entry and keeps all values in memory; opening also checks every "
        "block of the log."
    ),
}
"""By the row's name, or by its beginning, where the reason holds for all rows of the workload."""


def reason(row: str) -> str:
    """The reason with the longest name that the row's name begins with; empty if there is none."""
    found = [name for name in REASONS if row.startswith(name)]
    return REASONS[max(found, key=len)] if found else ""
