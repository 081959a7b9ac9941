"""Replay: an item of an event is put again, with the value that it had."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from kvwal.content.claim import Claim, claim_of, is_content, name_of
from kvwal.entry import DataEntry, Entry
from kvwal.errors import ContentDamaged, ContentGone, ContentMissing
from kvwal.hlc import to_text
from kvwal.key_class import QUEUE, kind_of, structure_of
from kvwal.structures.business import LocalBusiness
from kvwal.structures.content.names import put_entry
from kvwal.structures.content.transaction import ContentChanges
from kvwal.structures.provenance.event import Event, EventItem
from kvwal.structures.provenance.record import REPLAY
from kvwal.structures.provenance.said import Said, said_note
from kvwal.structures.queue.changes import QueueBlock, QueueChanges
from kvwal.structures.queue.positions import priority_of, queue_named
from kvwal.structures.transaction import Transaction, TransactionChanges

_PART_BYTES = 1 << 20


def replay(business: LocalBusiness, event: Event) -> int:
    """Put the items again that the event began with, or that it made if it began with none; in one transaction.

    An item of a queue comes to the end of its queue, with its priority, a key of a map gets its old value, and a content its old
    bytes. Returns the timestamp. Raises `ContentGone`, and `QueueFull` if there is no room.
    """
    was = event.record.before or event.record.after
    values = [_whole(business, entry) for entry in was]
    with Transaction(business) as transaction:
        said = Said(REPLAY, was[0].key_class, was[0].key, {"event": to_text(event.timestamp)}, list(was))
        transaction.changes.add([said_note(said, 0)])
        for entry in values:
            structure = structure_of(entry.key_class)
            if is_content(entry.key_class):
                changed = transaction.changes.decided(structure, ContentChanges)
                changed.entries[entry.key] = _brought_back(business, entry, transaction.changes)
                continue
            again = Entry(entry.key, entry.key_class, entry.value, entry.value_class, False, 0)
            if kind_of(structure) != QUEUE:
                transaction.changes.add([again])
                continue
            changes = QueueChanges(business, queue_named(structure))
            block = transaction.changes.decided(changes.structure, lambda changes=changes: QueueBlock(changes))  # type: ignore[misc]
            block.put(priority_of(entry.key), [again])
    return transaction.timestamp


def _whole(business: LocalBusiness, entry: DataEntry) -> DataEntry:
    """The entry with its value: that of the event or, if the event has only its size, that of the log or the archive."""
    item = EventItem(entry)
    if item.is_whole:
        return entry
    with suppress(ContentMissing):
        for change in business.history(entry.key_class, entry.key):
            if change.timestamp == entry.timestamp and not change.deleted:
                return replace(entry, value=change.value, value_class=change.value_class)
    name = f"{business.name}/{item.structure}" if item.structure else business.name
    raise ContentGone(
        f"{name}: the content of {item.key!r}, {item.size:,} bytes, put at {to_text(entry.timestamp)}, is gone: neither the log"
        " nor the archive has it any more; nothing was put.",
        hint="An event has values of up to 4 KiB itself. Larger ones are kept for Settings(history_seconds=…), in the archive.",
    )


def _brought_back(business: LocalBusiness, entry: DataEntry, changes: TransactionChanges) -> Entry:
    """An entry that gives a content the bytes which `entry` names, written anew: nothing but the event may name the old ones.

    Their file stays until the end of the block. Raises `ContentGone` if neither log nor archive has the bytes any more.
    """
    what, claim = f"{business.name}: {name_of(entry)!r}", claim_of(entry)
    files = business.content_files()
    writer = files.begin()
    try:
        with business.content_source.open(what, claim, 0, None) as source:
            while part := source.read(_PART_BYTES):
                writer.write(part)
        made: Claim = writer.finish(claim.attributes)
    except OSError as error:
        writer.discard()
        raise files.failed(what, error) from error
    except ContentMissing as error:
        writer.discard()
        raise _gone(business, entry, claim) from error
    except ContentDamaged:
        writer.discard()
        raise
    changes.at_end(lambda: files.settled(made.file))
    return put_entry(entry.key_class, entry.key, made)


def _gone(business: LocalBusiness, entry: DataEntry, claim: Claim) -> ContentGone:
    return ContentGone(
        f"{business.name}: the content {name_of(entry)!r}, {claim.length:,} bytes, put at {to_text(entry.timestamp)}, is gone:"
        " neither the log nor the archive has its bytes any more; nothing was put.",
        hint="Bytes are kept for Settings(history_seconds=…), in the archive; beside the log until the next checkpoints, and for"
        " Settings(content_keep_seconds=…) from then on.",
    )
