"""Requests that members answer from their logs: of clients and of other members, mostly for the history of a map.

The answer to a client is a block of entries, as the log has them, with the timestamps and expiry times that memory does not have.
"""

from __future__ import annotations

import msgspec

from kvwal.log.files.failures import JobFailure

PAGE_BYTES = 8 << 20
"""A page of a map's entries ends when its keys and values have so many bytes, or more."""

NOW = (1 << 63) - 1
"""The timestamp of a question for the entries as they are now."""

WRITES = "write"
"""The job of a `BusinessFailure` whose log takes no more writes."""


class Page(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A part of a map's entries in the order of identity: those behind (`after_class`, `after`), up to `PAGE_BYTES`. With a
    `prefix_class` only keys of that class that begin with `prefix`."""

    after_class: str = ""
    after: bytes = b""
    prefix_class: str = ""
    prefix: bytes = b""

    def has(self, key_class: str, key: bytes) -> bool:
        """Whether an entry of this identity belongs to the page, as far as the order goes."""
        of_prefix = not self.prefix_class or (key_class == self.prefix_class and key.startswith(self.prefix))
        return of_prefix and (key_class, key) > (self.after_class, self.after)


class Question(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Request for a map's history. With a `key_class` every change of that key, newest first; without it a page of the entries
    at `timestamp`."""

    map: str
    key_class: str = ""
    key: bytes = b""
    timestamp: int = 0
    page: Page = Page()


class FailuresQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the failures of the maintenance of the member that is asked. It is no array, as a `Question` is one."""


class BusinessFailure(msgspec.Struct, array_like=True, frozen=True):
    """A failure of a business at a member: that of a job of its maintenance, or of its writes."""

    business: str
    job: str
    failure: JobFailure


class Failures(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a `FailuresQuestion`: the number of failures, and the first of them."""

    count: int
    first: list[BusinessFailure]


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


PeerQuestion = TailQuestion | CopyQuestion | PartQuestion
encode = msgspec.msgpack.Encoder().encode
decode_failures = msgspec.msgpack.Decoder(Failures).decode
decode_peer = msgspec.msgpack.Decoder(PeerQuestion).decode
decode_copied = msgspec.msgpack.Decoder(Copied).decode
_decode_question = msgspec.msgpack.Decoder(Question).decode
_decode_failures_question = msgspec.msgpack.Decoder(FailuresQuestion).decode


def decode(text: bytes) -> Question | FailuresQuestion:
    """A client's request."""
    try:
        return _decode_question(text)
    except msgspec.ValidationError:
        return _decode_failures_question(text)
