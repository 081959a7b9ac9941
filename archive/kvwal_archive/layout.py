"""The names of the archive, built and parsed in this one place.

    <namespace>/<cluster>/<business>/<node>/<first>-<last>[-<horizon>].parquet     rows of a range of the log
    <namespace>/<cluster>/<business>/<node>/_events/<time>-<time>-<id>.parquet     events that left those rows, sorted by time
    <namespace>/<cluster>/<business>/<node>/_log                                   the log that writes under this node's name
    <namespace>/<cluster>/<business>/<node>/_log.2  _log.3 …                       the logs that took over since
    <namespace>/<cluster>/<business>/<node>/_lost.<last>-<after>[-<before>]        a tail of the log that a lost disk took along
    <namespace>/<cluster>/<business>/_base/<timestamp>-<id>.json                   the commit of a base
    <namespace>/<cluster>/<business>/_base/<timestamp>-<id>.<range>-<piece>.<node>.parquet     rows of one node in a base
    <namespace>/<cluster>/<business>/_content/<section>/<claim file>               bytes of contents, of all nodes

Numbers are decimal with 20 digits, so a listing comes back in log order. Every legal name round-trips, and no other string
parses as a name.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from kvwal_archive.errors import InvalidName

NAME_LENGTH = 128
LOGICAL_BITS = 16
"""Number of low bits of a timestamp that count within a millisecond."""
MAX_NUMBER = 2**63 - 1
PUT_FIRST = "ffff"
"""The end of the names of files that are put before the entry that names them is logged."""
UNCLAIMED_MS = 25 * 3600 * 1000
"""How long after its put such a file may be without an entry that names it. The members log no entry for one that a client began
to put 24 h ago; the hour is for clocks of the bucket and of the members that differ."""

_FIRST = re.compile(r"[A-Za-z0-9%@+]")
_OTHER = re.compile(r"[^A-Za-z0-9._%@+-]")
_OBJECT = re.compile(r"([0-9]{20})-([0-9]{20})(?:-([0-9]{20}))?\.parquet")
_REGISTRATION = re.compile(r"_log(?:\.([1-9][0-9]{0,8}))?")
_LOST = re.compile(r"_lost\.([0-9]{20})-([0-9]{20})(?:-([0-9]{20}))?")
_BASE_FOLDER = "_base"
_BASE = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.(?:json|([0-9]{6})-([0-9]{6})\.(.+)\.parquet)")
_EVENTS_FOLDER = "_events"
_EVENTS = re.compile(r"([0-9]{20})-([0-9]{20})-([0-9a-f]{32})\.parquet")
_CONTENT_FOLDER = "_content"
_CLAIM_FILE = re.compile(r"[0-9a-f]{32}")
_SECTION = 2
"""Letters of a claim file's name that are the name of its folder."""
MAX_PIECE = 999_999


class Place(NamedTuple):
    """The place of one log: one business on one node of a cluster."""

    namespace: str
    cluster: str
    business: str
    node: str

    @property
    def prefix(self) -> str:
        """The folder of the place, without a trailing slash. Raises InvalidName."""
        return "/".join(check_name(kind, name) for kind, name in zip(self._fields, self, strict=True))


class Span(NamedTuple):
    """The range of sequences that an object covers, both ends included.

    `horizon` is a timestamp of the hybrid clock, or 0. Of the entries older than the horizon only the latest of each identity
    was kept.
    """

    first: int
    last: int
    horizon: int = 0

    def supersedes(self, other: Span) -> bool:
        """Whether an object of this span makes one of the span `other` superfluous.

        A wider range supersedes the ranges inside it. Of equal ranges the one with the later horizon supersedes the other.
        """
        if (self.first, self.last) == (other.first, other.last):
            return self.horizon > other.horizon
        return self.first <= other.first and other.last <= self.last


class LostTail(NamedTuple):
    """The tail of a log that was on a lost disk only: changes after the sequence `last`, which was archived.

    Their timestamps are above `after` and below `before` (None: not known yet). There may be none.
    """

    place: Place
    last: int
    after: int
    before: int | None = None


class BaseName(NamedTuple):
    """The name of a base: its business, the greatest timestamp in the base, and the hash of what it was made from."""

    namespace: str
    cluster: str
    business: str
    timestamp: int
    id: str


class EventsName(NamedTuple):
    """The name of an object of events: their log, the timestamps of the first and the last one, and the hash of their keys."""

    place: Place
    first: int
    last: int
    id: str


class PartNumber(NamedTuple):
    """The number of a part within its base: the range of keys, the piece of the range, and the node of the rows."""

    range: int
    piece: int
    node: str


def to_text(timestamp: int) -> str:
    """A timestamp as text: UTC to the millisecond, and the counter if it is not 0."""
    counter = timestamp & ((1 << LOGICAL_BITS) - 1)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp >> LOGICAL_BITS)
    text = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
    return f"{text}+{counter}" if counter else text


def check_name(kind: str, name: object) -> str:
    """Return `name` if it may be a folder of the log and a part of a key in a bucket.

    Otherwise raises InvalidName, which names the broken rule. `kind` ("node", "business" …) only goes into the message.
    """
    if not isinstance(name, str):
        raise InvalidName(f"The {kind} name {name!r} is no text.", hint="Choose another name.")
    rule = _broken_rule(name)
    if rule:
        raise InvalidName(f"The {kind} name {name[:NAME_LENGTH]!r} {rule}.", hint="Choose another name.")
    return name


def _broken_rule(name: str) -> str:
    if not name:
        return "is empty"
    if len(name) > NAME_LENGTH:
        return f"is {len(name)} characters long; {NAME_LENGTH} are allowed"
    if bad := _OTHER.search(name):
        return f"holds {bad.group()!r}; letters, digits and . _ % @ + - are allowed"
    if not _FIRST.match(name):
        return f"begins with {name[0]!r}; the first character must be a letter, a digit or one of % @ +"
    return ""


def object_key(place: Place, span: Span) -> str:
    """The key of the object that holds `span` of the log at `place`.

    Raises InvalidName, or ValueError for an impossible span.
    """
    if not (1 <= span.first <= span.last <= MAX_NUMBER and 0 <= span.horizon <= MAX_NUMBER):
        raise ValueError(f"not a range of a log: {span}")
    horizon = f"-{span.horizon:020d}" if span.horizon else ""
    return f"{place.prefix}/{span.first:020d}-{span.last:020d}{horizon}.parquet"


@lru_cache(maxsize=1 << 14)
def parse_object_key(key: str) -> tuple[Place, Span] | None:
    """The place and span of a key that `object_key` built, or None for any other string. A reader lists the same keys often."""
    place, name = _split(key)
    match = _OBJECT.fullmatch(name)
    if place is None or match is None:
        return None
    span = Span(int(match[1]), int(match[2]), int(match[3] or 0))
    return (place, span) if _is_canonical(key, place, span) else None


def _is_canonical(key: str, place: Place, span: Span) -> bool:
    try:
        return object_key(place, span) == key
    except ValueError:
        return False


def registration_key(place: Place, number: int) -> str:
    """The key of the registration of the `number`-th log of the place; 1 is the first log."""
    return f"{place.prefix}/_log" + (f".{number}" if number > 1 else "")


def parse_registration_key(key: str) -> tuple[Place, int] | None:
    """The place and number of a key that `registration_key` built, or None for any other string."""
    place, name = _split(key)
    match = _REGISTRATION.fullmatch(name)
    if place is None or match is None:
        return None
    number = int(match[1] or 1)
    return (place, number) if registration_key(place, number) == key else None


def lost_tail_key(tail: LostTail) -> str:
    """The key of the record of a lost tail. Raises InvalidName, or ValueError for an impossible tail."""
    numbers = [tail.last, tail.after] + ([] if tail.before is None else [tail.before])
    if not all(0 <= number <= MAX_NUMBER for number in numbers):
        raise ValueError(f"not a tail of a log: {tail}")
    return f"{tail.place.prefix}/_lost." + "-".join(f"{number:020d}" for number in numbers)


def parse_lost_tail_key(key: str) -> LostTail | None:
    """The tail of a key that `lost_tail_key` built, or None for any other string."""
    place, name = _split(key)
    match = _LOST.fullmatch(name)
    if place is None or match is None:
        return None
    tail = LostTail(place, int(match[1]), int(match[2]), int(match[3]) if match[3] else None)
    return tail if max(tail.last, tail.after, tail.before or 0) <= MAX_NUMBER else None


def events_folder(place: Place) -> str:
    """The folder of the objects of events of a log, with a trailing slash. Raises InvalidName."""
    return f"{place.prefix}/{_EVENTS_FOLDER}/"


def events_key(name: EventsName) -> str:
    """The key of an object of events. Raises InvalidName, or ValueError for an impossible name."""
    if not (0 <= name.first <= name.last <= MAX_NUMBER and re.fullmatch(r"[0-9a-f]{32}", name.id)):
        raise ValueError(f"not events: {name}")
    return f"{events_folder(name.place)}{name.first:020d}-{name.last:020d}-{name.id}.parquet"


def parse_events_key(key: str) -> EventsName | None:
    """The name in a key that `events_key` built, or None for any other string."""
    folders, _, name = key.rpartition(f"/{_EVENTS_FOLDER}/")
    place, match = _split(f"{folders}/")[0], _EVENTS.fullmatch(name)
    if place is None or match is None:
        return None
    found = EventsName(place, int(match[1]), int(match[2]), match[3])
    return found if found.first <= found.last <= MAX_NUMBER else None


def base_folder(namespace: str, cluster: str, business: str) -> str:
    """The folder of a business's bases, with a trailing slash. Raises InvalidName."""
    names = {"namespace": namespace, "cluster": cluster, "business": business}
    return "/".join([*(check_name(kind, name) for kind, name in names.items()), _BASE_FOLDER, ""])


def base_key(base: BaseName, part: PartNumber | None = None) -> str:
    """The key of a base's commit, or that of one of its parts. Raises InvalidName, or ValueError for an impossible name."""
    if not (0 <= base.timestamp <= MAX_NUMBER and re.fullmatch(r"[0-9a-f]{32}", base.id)):
        raise ValueError(f"not a base: {base}")
    key = f"{base_folder(*base[:3])}{base.timestamp:020d}-{base.id}"
    if part is None:
        return f"{key}.json"
    if not (0 <= part.range <= MAX_PIECE and 0 <= part.piece <= MAX_PIECE):
        raise ValueError(f"not a part of a base: {part}")
    return f"{key}.{part.range:06d}-{part.piece:06d}.{check_name('node', part.node)}.parquet"


def parse_base_key(key: str) -> tuple[BaseName, PartNumber | None] | None:
    """The base and the part (None: the commit) of a key that `base_key` built, or None for any other string."""
    *folders, name = key.split("/")
    match = _BASE.fullmatch(name)
    if match is None or len(folders) != 4 or folders[3] != _BASE_FOLDER or any(map(_broken_rule, folders[:3])):
        return None
    base = BaseName(folders[0], folders[1], folders[2], int(match[1]), match[2])
    part = PartNumber(int(match[3]), int(match[4]), match[5]) if match[3] else None
    if base.timestamp > MAX_NUMBER or (part and _broken_rule(part.node)):
        return None
    return base, part


def content_folder(namespace: str, cluster: str, business: str) -> str:
    """The folder of a business's claim files, with a trailing slash. Raises InvalidName."""
    names = {"namespace": namespace, "cluster": cluster, "business": business}
    return "/".join([*(check_name(kind, name) for kind, name in names.items()), _CONTENT_FOLDER, ""])


def claim_file_key(namespace: str, cluster: str, business: str, file: str) -> str:
    """The key of a claim file. Raises InvalidName, or ValueError for a name that is none of a claim file."""
    if not _CLAIM_FILE.fullmatch(file):
        raise ValueError(f"not a claim file: {file!r}")
    return f"{content_folder(namespace, cluster, business)}{file[:_SECTION]}/{file}"


def parse_claim_file_key(key: str) -> tuple[str, str, str, str] | None:
    """Namespace, cluster, business and name of a key that `claim_file_key` built, or None for any other string."""
    *folders, content, section, file = key.split("/") if key.count("/") == 5 else [""] * 6
    if content != _CONTENT_FOLDER or not _CLAIM_FILE.fullmatch(file) or section != file[:_SECTION]:
        return None
    if any(map(_broken_rule, folders)):
        return None
    return folders[0], folders[1], folders[2], file


def _split(key: str) -> tuple[Place | None, str]:
    parts = key.split("/")
    if len(parts) != len(Place._fields) + 1 or any(_broken_rule(part) for part in parts[:-1]):
        return None, ""
    return Place(*parts[:-1]), parts[-1]
