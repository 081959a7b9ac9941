"""Key classes: what the `key_class` of an entry says: the structure whose entry it is, and the codec of its key.

The class of a key of a business's own map is the name of a codec: `str`, `int`. Every other entry of a log says so in its class,
as `<structure>:<codec>`: the entries of other structures, and the marks, intents and schemas that kvwal keeps for itself. No
codec has a colon in its name. A structure is `<kind>` or, if it has a name of its own, `<kind>/<name>`.
"""

from __future__ import annotations

TIME_MARK = "time:none"
"""The class of a time mark: a delete of a key that callers cannot use. Only its timestamp has a meaning."""
DROPPED = "dropped:none"
"""The class of the mark of a destroyed map: all entries of its log up to the mark's timestamp are void. Its key is empty, or
`kvwal.entry.AWAY`."""
INTENT = "intent:str"
"""The class of an intent: all changes of a cluster's transaction, until each is in its own member's log."""
OWN_MAP = ""
"""The structure that a business's own map is: its entries have no structure in their class."""
QUEUE = "queue"
"""The kind of the structures that are queues. Files of a log that may have entries of it have a format of their own."""
CONTENT = "content"
"""The kind of the structures that are contents: names of bytes that stand in files beside the log."""
CONTENT_RANGES = tuple(((f"{CONTENT}{begin}", b""), (f"{CONTENT}{end}", b"")) for begin, end in ("/0", ":;"))
"""The identities of the entries of all contents of a business, as ranges from the first to before the second one, sorted."""
PROVENANCE = "provenance"
"""The structure that has the events of a business: what happened to its items, and when."""
EVENTS = "provenance:_event"
"""The class of the events of a business: an entry for each transaction. They are on disk only."""
_MARKS, _SCHEMAS = "dropped", "schema"
_KEPT = frozenset({_MARKS, _SCHEMAS, "time", "intent", PROVENANCE})
_END_OF_STRUCTURE = ":"


def structure_of(key_class: str) -> str:
    """The structure whose entries have this class; `OWN_MAP` for the business's own map."""
    return key_class.rpartition(_END_OF_STRUCTURE)[0]


def kind_of(structure: str) -> str:
    """The kind of a structure."""
    return structure.partition("/")[0]


def end_of_kind(key_class: str) -> tuple[str, bytes]:
    """The identity before which the entries end that stand beside one of this class, which is that of a structure, and are of its
    kind: those of the structures of the kind that have a name, or that have none.
    """
    kind = kind_of(structure_of(key_class))
    return kind + chr(ord(key_class[len(kind)]) + 1), b""


def is_of_content(key_class: str) -> bool:
    """Whether entries of this class are names of contents."""
    return kind_of(structure_of(key_class)) == CONTENT


def is_of_map(key_class: str) -> bool:
    """Whether entries of this class are entries of the business's own map."""
    return _END_OF_STRUCTURE not in key_class


def is_data(key_class: str) -> bool:
    """Whether entries of this class are what callers put: entries of any map or queue, and none that kvwal keeps for itself."""
    return structure_of(key_class) not in _KEPT


def is_schema(key_class: str) -> bool:
    """Whether entries of this class are schemas of a map's values."""
    return structure_of(key_class) == _SCHEMAS


def is_ended_by_destroy(key_class: str) -> bool:
    """Whether the destruction of its map voids an entry of this class. The mark itself and the schemas outlive it."""
    return is_ended_with_map(structure_of(key_class))


def is_ended_with_map(structure: str) -> bool:
    """As `is_ended_by_destroy`, of the entries of a structure."""
    return structure not in (_MARKS, _SCHEMAS)
