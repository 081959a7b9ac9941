"""Requests that members answer from their logs: of clients and of other members, mostly for the history of a map.

The answer to a client is a block of entries, as the log has them, with the timestamps and expiry times that memory does not have.
"""

from __future__ import annotations

import msgspec

from kvwal.entry import DataEntry
from kvwal.key_class import OWN_MAP
from kvwal.log.files.maintenance_failures import JobFailure
from kvwal.structures.watch import Positions
from kvwal_archive.layout import LostTail

PAGE_BYTES = 8 << 20
"""A page of a map's entries ends when its keys and values have so many bytes, or more."""

POLL_SECONDS = 0.2
"""How often a client that waits for changes asks for them."""

NOW = (1 << 63) - 1
"""The timestamp of a question for the entries as they are now."""

WRITES = "write"
"""The job of a `BusinessFailure` whose log takes no more writes."""


class Page(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A part of a map's entries in the order of identity: those after (`after_class`, `after`), up to `PAGE_BYTES`. With a
    `prefix_class` only keys of that class that begin with `prefix`."""

    after_class: str = ""
    after: bytes = b""
    prefix_class: str = ""
    prefix: bytes = b""

    def has(self, key_class: str, key: bytes) -> bool:
        """Whether an entry of this identity belongs to the page, as far as the order goes."""
        of_prefix = not self.prefix_class or (key_class == self.prefix_class and key.startswith(self.prefix))
        return of_prefix and (key_class, key) > (self.after_class, self.after)


NO_LIMIT = Page()
"""All entries."""


class Question(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Request for a map's history. With a `key_class` every change of that key, newest first; without it a page of the entries
    at `timestamp`."""

    map: str
    key_class: str = ""
    key: bytes = b""
    timestamp: int = 0
    page: Page = Page()


class StructureQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Request for a page of the entries at `timestamp` of a structure beside the business's own map, or of all queues together
    (`queue/*`) as they are `NOW`. The answer is that of a `Question`.

    It is a question of its own, so that a member of an earlier version understands a `Question`.
    """

    map: str
    structure: str
    timestamp: int
    page: Page = Page()


class FailuresQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the failures of the maintenance of the member that is asked. It is no array, as a `Question` is one."""


class WatchStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, omit_defaults=True):
    """Request of a client for the place where a watch of a map begins: after `positions`, which are checked, else after
    `timestamp`, else with all that is kept if `beginning`, else now. The answer is a `WatchStarted`.

    What has its default is left out, here and in a `WatchRead`, so that a member of an earlier version understands the rest.
    """

    map: str
    positions: Positions | None = None
    timestamp: int | None = None
    beginning: bool = False


class WatchStarted(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a `WatchStart`. Changes up to the timestamp `since` are not given, also if a log brings them later.

    Up to the sequences `compacted` compaction had removed changes: there what is left is given, and further changes may go.
    """

    positions: Positions
    since: int
    compacted: Positions = {}


class WatchRead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, omit_defaults=True):
    """Request of a client for the next changes of a map after `positions`. The answer is a `WatchPage`.

    `since` and `compacted` are those of the `WatchStarted`. Changes of a `structure` are given: see `StructureQuestion`.
    With `until`, none after these sequences is, and none of another node.
    """

    map: str
    positions: Positions
    since: int
    compacted: Positions = msgspec.field(default_factory=dict, name="thinned")
    structure: str = OWN_MAP
    until: Positions | None = None


class WatchPage(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a `WatchRead`: changes in order, each with its node and sequence, and where the next page begins.

    There may be more changes if the positions differ from those of the request. `lost` are the lost tails of the map that the
    archive has on record, as it was seen some seconds ago at most. A member of an earlier version does not tell them.
    """

    changes: list[tuple[str, int, DataEntry]]
    positions: Positions
    lost: list[LostTail] = []


class LostTailsQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Request of a client for the lost tails of a map that the archive has on record. The answer is a list of them."""

    map: str


class BusinessFailure(msgspec.Struct, array_like=True, frozen=True):
    """A failure of a business at a member: that of a job of its maintenance, or of its writes."""

    business: str
    job: str
    failure: JobFailure


class Failures(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a `FailuresQuestion`: the number of failures, and the first of them.

    `lost_tails` has the number of lost tails of each business that has any, as the member last saw the archive. A member of an
    earlier version does not tell it.
    """

    count: int
    first: list[BusinessFailure]
    lost_tails: dict[str, int] = {}


class TailQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Request for the tail of a member's log of a business: the changes that the archive was not seen to hold. With a
    `key_class` those of that key, else all up to `timestamp`. The answer is an Arrow stream with the columns of the archive.
    """

    business: str
    key_class: str = ""
    key: bytes = b""
    timestamp: int = 0


class CopyQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Request for a copy of a member's logs. The member writes them as an archive beside its logs, and the answer lists the
    objects. Requests with the same `number` get the same answer."""

    number: int


class PartQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Request for `size` bytes from `offset` on of one object of a `CopyQuestion`'s archive."""

    key: str
    offset: int
    size: int


class Copied(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a `CopyQuestion`: the objects with their sizes, and by business the greatest timestamp of a delete that its
    log may lack; 0 where it lacks none."""

    objects: list[tuple[str, int]]
    left_out: dict[str, int]


class LowWatermarkQuestion(
    msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="FloorQuestion"
):
    """Request for the low watermark of a member's log of a business, at least `least` if its clock may go there."""

    business: str
    least: int = 0


class LowWatermark(msgspec.Struct, array_like=True, frozen=True, tag="Floor"):
    """The answer to a `LowWatermarkQuestion`: the member stamps nothing at or below `low_watermark` any more in this log.

    Every entry up to it is acknowledged and has a sequence up to `last`, which has the timestamp `timestamp`. `last` is None if
    the member has no open log of the business.
    """

    low_watermark: int
    last: int | None
    timestamp: int


class BeginQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Request for the last sequence of a member's log of a business with a timestamp up to `timestamp`."""

    business: str
    timestamp: int


class Begin(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """The answer to a `BeginQuestion`."""

    sequence: int


class RowsQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Request for a page of the rows of a member's log after the sequence `position`, up to the sequence `last` and the
    timestamp `limit`.
    """

    business: str
    position: int
    last: int
    limit: int


class CompactedRowsQuestion(
    RowsQuestion, array_like=True, frozen=True, forbid_unknown_fields=True, tag="ThinnedRowsQuestion"
):
    """A `RowsQuestion` of a reader that takes what compaction has left up to the sequence `compacted`. It is a question of its
    own, so that a member of an earlier version understands the others."""

    compacted: int


class StructureRowsQuestion(CompactedRowsQuestion, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """A `CompactedRowsQuestion` of a reader of a structure beside the business's own map: see `StructureQuestion`."""

    structure: str


class LogRows(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """The answer to a `RowsQuestion`: the rows with their sequences, and whether the page ended before `last` and `limit`.

    An entry that is no change of what the reader asks for, the map or a structure, is a time mark here.
    """

    rows: list[tuple[int, DataEntry]]
    more: bool


class Refused(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """The answer of a member that cannot answer: the name and the text of an error of kvwal."""

    error: str
    text: str


ClientQuestion = Question | StructureQuestion | FailuresQuestion | WatchStart | WatchRead | LostTailsQuestion
WatchQuestion = LowWatermarkQuestion | BeginQuestion | RowsQuestion | CompactedRowsQuestion | StructureRowsQuestion
"""What a member asks the others for the watch of a client."""
WatchAnswer = LowWatermark | Begin | LogRows
PeerQuestion = TailQuestion | CopyQuestion | PartQuestion | WatchQuestion
encode = msgspec.msgpack.Encoder().encode
decode_failures = msgspec.msgpack.Decoder(Failures).decode
decode_peer = msgspec.msgpack.Decoder(PeerQuestion).decode
decode_copied = msgspec.msgpack.Decoder(Copied).decode
decode_watch_answer = msgspec.msgpack.Decoder(WatchAnswer | Refused).decode
decode_started = msgspec.msgpack.Decoder(WatchStarted).decode
decode_watch_page = msgspec.msgpack.Decoder(WatchPage).decode
decode_lost_tails = msgspec.msgpack.Decoder(list[LostTail]).decode
_decode_question = msgspec.msgpack.Decoder(Question).decode
_decode_failures_question = msgspec.msgpack.Decoder(FailuresQuestion).decode
_decode_tagged = msgspec.msgpack.Decoder(StructureQuestion | WatchStart | WatchRead | LostTailsQuestion).decode


def decode(text: bytes) -> ClientQuestion:
    """A client's request."""
    try:
        return _decode_question(text)
    except msgspec.ValidationError:
        pass
    try:
        return _decode_failures_question(text)
    except msgspec.ValidationError:
        tagged: StructureQuestion | WatchStart | WatchRead | LostTailsQuestion = _decode_tagged(text)
        return tagged
