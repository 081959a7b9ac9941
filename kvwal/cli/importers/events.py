"""Events of Flume put into a queue, each once: the ledger of a transaction's events is in the transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvwal.cli import show
from kvwal.cli.queue.names import QueueName
from kvwal.cli.transfer.puts import BATCH_BYTES, BATCH_ENTRIES, ImportStopped
from kvwal.counted import counted
from kvwal.errors import KvwalError, TooLarge
from kvwal.importers.flume.ledger import Identity, encode, known
from kvwal.importers.flume.records import value_of
from kvwal.importers.flume.replay import QueuedEvent
from kvwal.importers.source import Report
from kvwal.structures.facade import Structures

LEDGER = "imports"
"""The map of the business that has the ledger. Its keys begin with the name of the queue."""
_AGAIN = "Then run the same command again: it puts the events that are missing."


@dataclass
class Puts:
    """What an import did to a queue."""

    put: int = 0
    unchanged: int = 0

    def sentence(self, name: str) -> str:
        """The answer for people."""
        there = f", {counted(self.unchanged, 'was', 'were')} imported before" if self.unchanged else ""
        return f"{name}: {counted(self.put, 'item was put', 'items were put')}{there}."


def put_events(business: Structures, queue: QueueName, events: Iterable[QueuedEvent], report: Report) -> Puts:
    """Put the events that no earlier import has put, in transactions of some hundred. Raises `ImportStopped`."""
    puts = Puts()
    front = f"{queue.name}:"
    ledger = business.map(LEDGER)
    there = known(value for key, value in ledger.items() if isinstance(key, str) and key.startswith(front))
    for batch in _batches(_missing(events, there, puts)):
        try:
            _put(business, queue.name, front, batch, report, puts)
        except KvwalError as error:
            what = error.what.replace("; nothing was written", "")  # that was said of one transaction
            raise ImportStopped(
                f"{puts.sentence(str(queue))} Then the import stopped: {what}",
                error.kind,
                hint=f"{error.hint} {_AGAIN}".lstrip(),
            ) from error
        except KeyboardInterrupt:
            show.note(f"kvwal: {puts.sentence(str(queue))} {_AGAIN}")
            raise
    return puts


def identity_of(event: QueuedEvent) -> Identity:
    """What the ledger knows an event by."""
    return Identity(event.order, event.number, event.offset)


def _missing(events: Iterable[QueuedEvent], there: set[int], puts: Puts) -> Iterator[QueuedEvent]:
    for event in events:
        if identity_of(event).packed() in there:
            puts.unchanged += 1
        else:
            yield event


def _batches(events: Iterable[QueuedEvent]) -> Iterator[list[QueuedEvent]]:
    batch: list[QueuedEvent] = []
    size = 0
    for event in events:
        of_event = len(event.event.body)
        if batch and (len(batch) >= BATCH_ENTRIES or size + of_event > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += of_event
    if batch:
        yield batch


def _put(business: Structures, name: str, front: str, batch: list[QueuedEvent], report: Report, puts: Puts) -> None:
    """Put one transaction. An event that is too large for one is left out."""
    identities = [identity_of(event) for event in batch]
    try:
        with business.transaction() as t:
            t.queue(name).put_many([value_of(event.event) for event in batch])
            t.map(LEDGER)[front + ":".join(map(str, identities[0]))] = encode(identities)
    except TooLarge as error:
        if len(batch) > 1:
            raise
        report.left_out(batch[0].path, batch[0].offset, error.what.rstrip("."))
        return
    puts.put += len(batch)
