"""Key classes: what the `key_class` of an entry says, and the one place that knows which classes are those of a map.

The class of a map's key is the name of a codec: `str`, `int`. Every other entry of a log says so in its class, as
`<structure>:<codec>`: the marks, intents and schemas that kvwal keeps beside a map. No codec has a colon in its name.
"""

from __future__ import annotations

from collections.abc import Iterable

TIME_MARK = "time:none"
"""The class of a time mark: a delete of a key that callers cannot use. Only its timestamp has a meaning."""
DROPPED = "dropped:none"
"""The class of the mark of a destroyed map: all entries of its log up to the mark's timestamp are void. Its key is empty, or
`kvwal.entry.AWAY`."""
INTENT = "intent:str"
"""The class of an intent: all changes of a cluster's transaction, until each is in its own member's log."""
_SCHEMAS = "schema:"
_OTHER_STRUCTURE = ":"


def is_of_map(key_class: str) -> bool:
    """Whether entries of this class are entries of a map, which callers see. kvwal keeps all other entries for itself."""
    return _OTHER_STRUCTURE not in key_class


def classes_of_map(key_classes: Iterable[str]) -> list[str]:
    """Those of these classes whose entries are entries of a map, in their order."""
    return [name for name in key_classes if is_of_map(name)]


def is_schema(key_class: str) -> bool:
    """Whether entries of this class are schemas of a map's values."""
    return key_class.startswith(_SCHEMAS)


def is_ended_by_destroy(key_class: str) -> bool:
    """Whether the destruction of its map voids an entry of this class. The mark itself and the schemas outlive it."""
    return key_class != DROPPED and not is_schema(key_class)
