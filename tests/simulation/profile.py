"""What one seed is about. Each seed leaves most things out: faults that always come together hide what one alone would show."""

from __future__ import annotations

import random

from msgspec import structs

from kvwal.config import KIB, MIB, Flush, Interval, Settings

QUEUED = "q"
"""The business that has queues, and a map beside them, in the place of another one."""
FILED = "f"
"""The business that has contents, in the place of another one."""
IN_THE_LOG = 1 << 40
"""Values of this size at most stay in the log, unless a seed has large values."""
_INLINE_BYTES = (20, 60, 300, 2000)
"""The claim of a value has some 150 bytes, so it is larger or smaller than the values beside the log."""
SHAPES = ("mixed", "mixed", "mixed", "equal", "tiny", "huge", "one key", "deletes", "expiring")
"""Shapes of data: values of one size, a thousand keys of nothing, a value near the limit, versions of one key, and so on."""


class Profile:
    """Drawn once for a seed, from a stream of its own."""

    def __init__(self, chance: random.Random) -> None:
        yes = chance.random
        self.flush: Flush = chance.choices(["sync", Interval(ms=50, bytes=20_000), "os"], [8, 1, 1])[0]
        self.archive = yes() < 0.7
        self.own_loop = yes() < 0.3
        self.businesses = ["b", "c"][: chance.choice([1, 1, 2])]
        self.openings = chance.randint(2, 4)
        self.clients = chance.randint(1, 4)
        self.calls = chance.randint(3, 12)
        self.keys = chance.choice([2, 4, 10])
        self.sizes = chance.choice([(0, 10), (0, 10), (10, 600), (0, 3000, 20_000)])
        self.expiry = yes() < 0.4
        self.cancels = yes() < 0.3
        self.disk_faults = yes() < 0.4
        self.full_disk = yes() < 0.2
        if self.full_disk:
            self.sizes = (0, 3000, 20_000)
        self.trouble = chance.choice([0.0, 0.0, 0.02, 0.15])
        self.etags = yes() < 0.8
        self.clock_jumps = yes() < 0.4
        self.operators = self.archive and yes() < 0.5
        self.restores = self.archive and yes() < 0.3
        self.loses_disk = self.archive and yes() < 0.2
        self.kills_child = yes() < 0.3
        self.settings = self._settings(chance)
        self._mix(chance, past=yes() < (0.7 if self.operators else 0.25))
        self.stops = yes() < 0.25
        self.most_at_once = 4
        self.ttl_share = 0.4
        self.shape = chance.choice(SHAPES)
        self._shape()
        other = yes()
        if other < 0.25:
            self.businesses[-1] = QUEUED
        elif other < 0.5:
            self.businesses[-1] = FILED
            kept = chance.choice((0.0, 0.0, 2.0, 7 * 86400.0))
            self.settings = structs.replace(self.settings, content_keep_seconds=kept)
        self.inline_bytes: int | None = None
        if yes() < 0.4:
            self._with_large_values(chance)

    @property
    def is_never_full(self) -> bool:
        """Whether the ring has room for all that clients may ever submit at a time."""
        return self.settings.ring_slots > 1000 and self.settings.ring_bytes > MIB

    def is_large(self, value: str) -> bool:
        """Whether the bytes of a value stand beside the log."""
        return self.inline_bytes is not None and len(value) > self.inline_bytes

    def _with_large_values(self, chance: random.Random) -> None:
        """Values above `inline_bytes` stand beside the log; some are large enough for a claim file of their own."""
        self.inline_bytes = chance.choice(_INLINE_BYTES)
        kept = chance.choice((0.0, 0.0, 2.0, 7 * 86400.0))
        self.settings = structs.replace(self.settings, inline_bytes=self.inline_bytes, content_keep_seconds=kept)
        if self.shape not in ("equal", "tiny"):
            self.sizes = (*self.sizes, 2 * self.inline_bytes, 7000)

    @property
    def history_ms(self) -> int:
        return int(self.settings.history_seconds * 1000)

    def _settings(self, chance: random.Random) -> Settings:
        return Settings(
            inline_bytes=IN_THE_LOG,
            segment_bytes=64 * KIB,
            ring_slots=chance.choice([2, 8, 1024]),
            ring_bytes=chance.choice([4 * KIB, 1 << 26]),
            ring_seconds=chance.choice([0.5, 60.0]),
            checkpoint_seconds=chance.choice([1.0, 4.0, 60.0]),
            checkpoint_bytes=chance.choice([1000, 1 << 28]),
            archive_seconds=chance.choice([1.0, 3.0, 60.0]),
            history_seconds=chance.choice([0.001, 2.0, 7 * 86400.0]),
            gc_grace_seconds=chance.choice([0.001, 1.0, 3600.0]),
            reserve_bytes=chance.choice([0, 64 * KIB, 256 * KIB]),
            overflow_bytes=chance.choice([100, 1000, MIB]),
            queue_memory=chance.choice([2, 8, 20_000]),
        )

    def _shape(self) -> None:
        if self.shape == "equal":
            self.sizes = (50,)
        elif self.shape == "tiny":
            self.sizes, self.keys, self.most_at_once = (0,), 1000, 1000
        elif self.shape == "huge":
            self.sizes = (0, 0, 0, 0, 0, 0, 300_000)
        elif self.shape == "one key":
            self.keys = 1
        elif self.shape == "deletes":
            self.weights = [weight * (0.2 if "put" in kind else 5 if kind == "delete" else 1) for kind, weight in
                            zip(self.kinds, self.weights, strict=True)]  # fmt: skip
        elif self.shape == "expiring":
            self.expiry, self.ttl_share = True, 1.0

    def _mix(self, chance: random.Random, *, past: bool) -> None:
        weights = {
            "put": 8, "delete": 3, "put_many": 2, "transaction": 2, "put_if_absent": 3, "replace": 3, "remove": 2, "pop": 1,
            "get": 8, "count": 1, "scan": 2, "history": 1 if past else 0, "at": 0.5 if past else 0,
        }  # fmt: skip
        self.kinds = list(weights)
        self.weights = [weight * chance.choice([0.3, 1, 1, 2]) for weight in weights.values()]
