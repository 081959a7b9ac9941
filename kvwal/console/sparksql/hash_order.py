"""The order in which Spark goes through the jobs and the stages of an SQL execution: that of Scala's maps and sets.

Spark's listener, `SQLAppStatusListener`, keeps the jobs in an immutable Map and the stages in an immutable Set, adds to both,
and removes nothing. Up to four keys stand as they were added. More are in a HashMap or a HashSet of Scala 2.13, which is a tree
(`scala.collection.Hashing`, and `ChampBaseIterator` in `scala.collection.immutable`). A node has 32 places. Five bits of the hash
of a key name its place: the lowest five in the topmost node, the next five in a node below it. Keys that share a place are in a
node below. A node is gone through in the order of its places: first the keys that are alone in theirs, then the nodes below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST_IN_ORDER = 4
_BITS_OF_A_LEVEL = 5
_BITS_OF_A_HASH = 32
_HASH = (1 << _BITS_OF_A_HASH) - 1


def hash_order(keys: Iterable[int]) -> list[int]:
    """`keys`, given as they were added and each once, in the order in which Scala goes through them."""
    added = list(keys)
    return added if len(added) <= _MOST_IN_ORDER else _in_node(added, 0)


def _in_node(keys: Sequence[int], shift: int) -> list[int]:
    """The keys of a node and of those below it. `shift`: how many bits of their hashes the nodes above took."""
    if shift >= _BITS_OF_A_HASH:
        return list(keys)  # numbers of more than 32 bits, which no Spark gives, may have one hash
    places: dict[int, list[int]] = {}
    for key in keys:
        places.setdefault((_hash(key) >> shift) % (1 << _BITS_OF_A_LEVEL), []).append(key)
    in_order = [places[place] for place in sorted(places)]
    alone = [shared[0] for shared in in_order if len(shared) == 1]
    below = [key for shared in in_order if len(shared) > 1 for key in _in_node(shared, shift + _BITS_OF_A_LEVEL)]
    return alone + below


def _hash(key: int) -> int:
    """The hash of an integer, as `scala.collection.Hashing.improve` makes it, in 32 bits."""
    mixed = (key + ~(key << 9)) & _HASH
    mixed ^= mixed >> 14
    mixed = (mixed + (mixed << 4)) & _HASH
    return mixed ^ (mixed >> 10)
