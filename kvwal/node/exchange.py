"""A change of a member that was away, made where nobody has changed the key since: in memory, as a client would."""

from __future__ import annotations

from typing import Any

from kvwal.cluster.maps import to_map
from kvwal.cluster.returning import Change
from kvwal.node.jvm import java


def exchange(
    instance: Any,
    now_ms: int,
    business: str,
    change: Change,
    live: Change | None,
    olds: list[tuple[str, bytes]],
    absent: bool,
) -> bool:
    """See `cluster.returning.Exchange`; `now_ms` is when an end is so far away."""
    words, map_ = java("kvwal.node.Words"), instance.getMap(to_map(business))
    key = words.toData(change.key_class, change.key)
    candidates = [words.toData(name, value) for name, value in olds]
    if live is None:
        return any(map_.remove(key, old) for old in candidates)
    new = words.toData(live.value_class, live.value)
    done = any(map_.replace(key, old, new) for old in candidates) or (absent and map_.putIfAbsent(key, new) is None)
    if done and live.expires:
        map_.setTtl(key, live.expires - now_ms, java("java.util.concurrent.TimeUnit").MILLISECONDS)
    return bool(done)
