"""The commit of a write, in the driver: staged blocks become transactions, with marks in the ledger of the same map.

A write into a folder is one transaction, and so is one into a cluster that fits into one: all of it is seen at once, or nothing.
A larger one becomes several transactions in order, and a reader may see the first of them before the last. Its manifest and its
mark come first, so it is finished in any case: by this driver, or, if this driver is killed or fails, by the next write to the
business (a batch), or by the next run of the query (an epoch).

The mark is the fence. Each transaction of a job replaces the job's mark, on the condition that the mark is the one that this
writer put last. So the store refuses a writer that stood still while another one took its job over, at any step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import TypeVar

import msgspec

from kvwal.config import KIB
from kvwal.entry import Entry
from kvwal.errors import ClusterUnreachable, KvwalError, NotRecovered, Overloaded
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import retry_on
from kvwal.spark.sink.blocks import StagedBlock, StagedRowsLost, decode_plan, encode_plan, in_transactions
from kvwal.spark.sink.marks import FencedWriter, Verdict, WriteMark, WriteMarks, condition, judge, mark_entry, successor
from kvwal.spark.sink.options import WriteOptions
from kvwal.spark.sink.staging import MANIFEST, Staging, open_staging
from kvwal.spark.state.lease import LEASE_SECONDS
from kvwal.spark.state.records import Silence
from kvwal.structures.map.map import Map, commit_entries_if, submit_entries, transaction_bytes

RETRY_SECONDS = 60.0
"""How long a transaction is tried while the cluster recovers or does not answer."""
MARKS_BYTES = 64 * KIB
"""Bytes of a transaction that are kept for the marks of the ledger."""
_POLL_SECONDS = 0.5
_NOTHING_WRITTEN = (NotRecovered, Overloaded, ClusterUnreachable)

T = TypeVar("T")
Plan = Sequence[list[StagedBlock]]


class Committer:
    """Writes the transactions of one driver. `exclusive`: no other process can write to the map meanwhile, because of its lock.

    Without that lock two writers of one job may run at once. So a writer takes an unfinished job over only after it has seen the
    mark of the former writer unchanged for `LEASE_SECONDS`: that leaves a living writer its job. The mark keeps them apart.
    """

    def __init__(
        self,
        jobs: Map,
        options: WriteOptions,
        *,
        exclusive: bool,
        clock: Clock = SYSTEM,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._map = jobs
        self._options = options
        self._exclusive = exclusive
        self._clock = clock
        self._pause = pause or Event().wait
        self._marks = WriteMarks(jobs)
        self._logger = get_logger(__name__)

    def write_batch(self, job: str, staging: Staging, blocks: Sequence[StagedBlock]) -> None:
        """Write the blocks of a batch write. Then unfinished batch writes of others have been finished, too."""
        self.finish_others(job)
        plan = in_transactions(blocks, rows_bytes(self._map))
        if len(plan) == 1:
            entries = self._entries(staging, job, plan[0])
            self._patiently(lambda: submit_entries(self._map, entries).result())
        elif plan:
            mark = WriteMark(job, parts=len(plan), staged=job, place=self._options.staging)
            self._put_manifest(staging, job, plan)
            if not self._marks.begin(job, mark):
                raise _fenced(job)
            self._transactions(job, mark, mark, plan, staging)
        noted = [partial(self._marks.end, job)] if len(plan) > 1 else []
        self._tidy(job, *noted, partial(staging.remove, job), partial(self._clean, staging))

    def _clean(self, staging: Staging) -> None:
        staging.clean(self._marks.unfinished())

    def _tidy(self, write: str, *steps: Callable[[], None]) -> None:
        """Do what is left when a write is in the store. An error is logged only, because the write was done."""
        try:
            for step in steps:
                step()
        except KvwalError as error:
            self._logger.warning("staged rows stay for a later write", extra={"write": write, "error": str(error)})

    def finish_others(self, job: str) -> None:
        """Finish the batch writes whose drivers were killed or failed between two transactions."""
        for other in self._marks.unfinished():
            mark = self._marks.of(other)
            if mark is not None:
                taken = self._take_over(other, mark, job)
                if taken is None or not self._finish_batch(other, taken):
                    continue
            self._marks.end(other)

    def _finish_batch(self, job: str, mark: WriteMark) -> bool:
        """Write what is missing of a batch write. False if another writer has taken it over meanwhile, and finishes it."""
        with open_staging(self._options, mark.place) as staging:
            try:
                self._finish(job, mark, staging)
            except FencedWriter:
                return False
            except StagedRowsLost as error:
                self._logger.error(
                    "a batch write was not finished, because its staged rows are gone",
                    extra={"job": job, "done": mark.done, "parts": mark.parts, "error": str(error)},
                )
                left = self._marks.of(job)
                if left is None or left.run != mark.run or not self._marks.give_up(job, left):
                    return False
            self._tidy(mark.staged, partial(staging.remove, mark.staged))
        return True

    def write_epoch(
        self, query: str, run: str, epoch: int, write: str, staging: Staging, blocks: Sequence[StagedBlock]
    ) -> None:
        """Write the blocks of an epoch of a query, once: an epoch that is there already changes nothing.

        Raises FencedWriter if another run of the query has taken over, or is writing.
        """
        mark = self._marks.of(query)
        verdict = judge(query, mark, run, epoch)
        first = mark is None or mark.run != run
        plan = in_transactions(blocks, rows_bytes(self._map))
        if mark is not None and mark.run != run:
            mark = self._take_query(query, mark, run, epoch)
        if mark is not None and verdict is Verdict.FINISH:
            mark, verdict = self._finish_epoch(query, mark, epoch)
        if verdict is Verdict.WRITE and plan:
            following = WriteMark(
                run, epoch, len(plan), beat=0 if mark is None else mark.beat + 1, staged=write,
                place=self._options.staging, former=successor(mark, run),
            )  # fmt: skip
            self._write_marked(query, mark, following, plan, staging)
        staged = any(not block.data for block in blocks) or len(plan) > 1
        removed = [partial(staging.remove, write)] if staged else []
        cleaned = [partial(self._clean, staging)] if first else []
        self._tidy(write, *removed, *cleaned)

    def _write_marked(
        self, query: str, mark: WriteMark | None, following: WriteMark, plan: Plan, staging: Staging
    ) -> None:
        if len(plan) > 1:
            self._put_manifest(staging, following.staged, plan)
            self._under(query, mark, following)
            mark = following
        self._transactions(query, mark, following, plan, staging)

    def _take_query(self, query: str, mark: WriteMark, run: str, epoch: int) -> WriteMark:
        taken = self._take_over(query, mark, run)
        if taken is None:
            raise FencedWriter(
                f"query {query}: another run of it is writing epoch {mark.epoch} now; nothing of epoch {epoch} was written.",
                hint="Two queries with one checkpoint are running: stop one of them, and start the other again.",
            )
        return taken

    def _finish_epoch(self, query: str, mark: WriteMark, epoch: int) -> tuple[WriteMark, Verdict]:
        """Finish the epoch that a former run began. If its rows are gone, this run's rows of the same epoch replace them.

        An older epoch of which nothing is there was empty when Spark ran it again, else it would be whole: it counts as written.
        """
        try:
            with open_staging(self._options, mark.place) as staging:
                whole = self._finish(query, mark, staging)
                self._tidy(mark.staged, partial(staging.remove, mark.staged))
        except StagedRowsLost:
            if mark.epoch != epoch and mark.done:
                raise
            left = self._marks.of(query)
            if left is None or left.run != mark.run:
                raise _fenced(query) from None
            return left, Verdict.WRITE
        return whole, Verdict.REPLAYED if mark.epoch == epoch else Verdict.WRITE

    def _finish(self, job: str, mark: WriteMark, staging: Staging) -> WriteMark:
        plan = decode_plan(staging.read(mark.staged, MANIFEST))
        self._logger.warning(
            "finishing a write that was left unfinished", extra={"job": job, "done": mark.done, "parts": mark.parts}
        )
        return self._transactions(job, mark, mark, plan, staging)

    def _put_manifest(self, staging: Staging, write: str, plan: Plan) -> None:
        """Keep the plan, and the blocks that came with messages: the write is finished from them."""
        staging.put(write, MANIFEST, encode_plan(plan))

    def _take_over(self, job: str, mark: WriteMark, run: str) -> WriteMark | None:
        """The mark of a job that is this run's from now on; None if its former writer is alive. May wait `LEASE_SECONDS`."""
        silence = Silence(self._clock)
        while not (self._exclusive or mark.is_whole or silence.is_longer(job, mark, LEASE_SECONDS)):
            self._pause(_POLL_SECONDS)
            if self._marks.of(job) != mark:
                return None
        taken = msgspec.structs.replace(mark, run=run, former=successor(mark, run), beat=mark.beat + 1)
        return taken if self._marks.claim(job, mark, taken) else None

    def _transactions(
        self, job: str, former: WriteMark | None, mark: WriteMark, plan: Plan, staging: Staging
    ) -> WriteMark:
        """Write the transactions that are not there yet, and return the last mark. `former` is the mark that the job has now.

        The last one of a batch write deletes its mark.
        """
        for number in range(mark.done, len(plan)):
            entries = self._entries(staging, mark.staged, plan[number])
            mark = msgspec.structs.replace(mark, done=number + 1)
            is_over = mark.is_whole and mark.staged == job  # a batch write is staged under its own name
            self._under(job, former, None if is_over else mark, entries)
            former = mark
        return mark

    def _entries(self, staging: Staging, write: str, blocks: Sequence[StagedBlock]) -> list[Entry]:
        return [entry for block in blocks for entry in staging.entries(write, block)]

    def _under(
        self, job: str, mark: WriteMark | None, following: WriteMark | None, entries: Sequence[Entry] = ()
    ) -> None:
        """Replace a job's mark, in one transaction with the entries. FencedWriter if it has another mark: nothing was written."""
        changes = [*entries, mark_entry(job, following)]
        if not self._patiently(lambda: commit_entries_if(self._map, condition(job, mark), changes)):
            raise _fenced(job)

    def _patiently(self, write: Callable[[], T]) -> T:
        """Try a transaction again while a cluster recovers, as long as nothing was written."""
        return retry_on(write, _NOTHING_WRITTEN, pause=_POLL_SECONDS, within=RETRY_SECONDS)


def rows_bytes(jobs: Map) -> int:
    """The most bytes of rows in one transaction of a map, beside the marks of the ledger."""
    return transaction_bytes(jobs) - MARKS_BYTES


def _fenced(job: str) -> FencedWriter:
    return FencedWriter(
        f"job {job}: another writer has taken it over, so the store refused this transaction and this writer stopped.",
        hint="The other writer finishes what was begun. Stop one of two writers of the same job.",
    )
