"""The writers of the data source: what tasks do with their rows, and what the driver does when all tasks have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kvwal.errors import ConfigError, KvwalError
from kvwal.location.opening import open_writer
from kvwal.location.parse import ClusterLocation, FolderLocation
from kvwal.ports.clock import SYSTEM
from kvwal.ports.logger import get_logger
from kvwal.spark.sink.blocks import INLINE_BYTES, STAGED_BLOCK_BYTES, StagedBlock, make_block, split_rows
from kvwal.spark.sink.columns import WriteColumns, write_columns
from kvwal.spark.sink.commit import Committer
from kvwal.spark.sink.options import WriteOptions, write_options
from kvwal.spark.sink.rows import RowEncoder
from kvwal.spark.sink.staging import block_name, epoch_write, open_staging
from kvwal.spark.values import NULL

if TYPE_CHECKING:
    import pyarrow as pa

    from kvwal.entry import Entry

QUERY, EPOCH, RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""Properties of a task of a stream: the query, the epoch, and the run of the query."""


class Staged(WriterCommitMessage):
    """What a task did: the blocks of its rows, the name of the write, and which run of which query it was (empty: none).

    `refused` is how many of its rows did not fit: see `RowEncoder`.
    """

    def __init__(self, blocks: Sequence[StagedBlock], refused: int, write: str, query: str = "", run: str = "") -> None:
        self.blocks = tuple(blocks)
        self.refused = refused
        self.write = write
        self.query = query
        self.run = run


class BatchWriter(DataSourceArrowWriter):
    """The writer of a DataFrame."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._options = options
        self._columns = columns
        self._job = f"{SYSTEM.wall_ms():013d}-{SYSTEM.random_bits(64):016x}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """See DataSourceArrowWriter.write. It runs on a worker. Raises CodecError; see `RowEncoder.entries`."""
        return Staged(*_stage(self._options, self._columns, self._job, iterator), self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """See DataSourceWriter.commit. Raises the errors of a write to the store; see `commit`."""
        staged = _staged(messages)
        with _committing(self._options) as committer, open_staging(self._options) as staging:
            committer.write_batch(self._job, staging, _blocks_of(staged))
        _tell_refused(self._options, staged)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """See DataSourceWriter.abort. A write of several transactions that may have been begun keeps its rows: see `commit`."""
        _unstage(self._options, self._job)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream. Spark makes one for the tasks of an epoch, and another for its end."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """See DataSourceStreamArrowWriter.write, and `BatchWriter.write`."""
        query, epoch, run = (_property(name) for name in (QUERY, EPOCH, RUN))
        write = epoch_write(query, int(epoch), run)
        return Staged(*_stage(self._options, self._columns, write, iterator), write, query, run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        """See DataSourceStreamWriter.commit. An epoch that was written already changes nothing. Raises FencedWriter."""
        staged = _staged(messages)
        if not any(message.blocks for message in staged):
            _tell_refused(self._options, staged)
            return
        first = staged[0]
        with _committing(self._options) as committer, open_staging(self._options) as staging:
            committer.finish_others(first.run)
            committer.write_epoch(first.query, first.run, batchId, first.write, staging, _blocks_of(staged))
        _tell_refused(self._options, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """See DataSourceStreamWriter.abort, and `BatchWriter.abort`."""
        staged = _staged(messages)
        if staged:  # else no task tells the name of its write: a later write removes what is old
            _unstage(self._options, staged[0].write)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of a DataFrame with this schema. Raises ConfigError for wrong options and columns, ClusterUnreachable."""
    wanted, columns = _wanted(options, schema, overwrite)
    if isinstance(wanted.location, ClusterLocation):  # a cluster that is away is told before the tasks run
        with open_writer(wanted.location, wanted.names):
            pass
    return BatchWriter(wanted, columns)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer of a stream with this schema. Raises ConfigError for wrong options and columns."""
    return StreamWriter(*_wanted(options, schema, overwrite))


def _wanted(options: Mapping[str, str], schema: StructType, overwrite: bool) -> tuple[WriteOptions, WriteColumns]:
    checked = write_options(options, overwrite=overwrite)
    return checked, write_columns(schema, checked.deleted)


def _stage(
    options: WriteOptions, columns: WriteColumns, write: str, batches: Iterator[pa.RecordBatch]
) -> tuple[list[StagedBlock], int]:
    """Stage the rows of a task, in order. If they are few, they are in the blocks themselves. Also how many did not fit."""
    encoder = RowEncoder(columns, options.business, options.mode)
    rows = chain.from_iterable(map(encoder.entries, batches))
    blocks = _blocks(options, write, split_rows(rows, STAGED_BLOCK_BYTES))
    return blocks, encoder.refused


def _blocks(options: WriteOptions, write: str, lists: Iterator[list[Entry]]) -> list[StagedBlock]:
    first = next(lists, None)
    if first is None:
        return []
    name = _namer()
    block, data = make_block(name(0), first)
    if block.size <= INLINE_BYTES:
        return [StagedBlock(block.name, block.size, block.checksum, data), *_put(options, write, lists, name)]
    return _put(options, write, chain([first], lists), name)


def _put(
    options: WriteOptions, write: str, lists: Iterator[list[Entry]], name: Callable[[int], str]
) -> list[StagedBlock]:
    following = next(lists, None)
    if following is None:
        return []
    blocks = []
    with open_staging(options) as staging:
        for number, entries in enumerate(chain([following], lists)):
            block, data = make_block(name(number), entries)
            staging.put(write, block.name, data)
            blocks.append(block)
    return blocks


def _namer() -> Callable[[int], str]:
    context = TaskContext.get()
    if context is None:
        raise ConfigError("rows of format kvwal are staged by a task of Spark only.")
    partition, attempt = context.partitionId(), context.taskAttemptId()
    return lambda number: block_name(partition, attempt, number)


def _property(name: str) -> str:
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(name)
    if value is None:
        raise ConfigError(
            f"this version of Spark does not tell its tasks {name!r}, so an epoch could not be told from its replay;"
            " nothing was written.",
            hint="Write the stream by foreachBatch.",
        )
    return value


def _unstage(options: WriteOptions, write: str) -> None:
    """Remove the staged rows of a write that failed, unless it may have been begun.

    An error here is logged only: Spark would show it in place of the error that ended the write.
    """
    try:
        with open_staging(options) as staging:
            if not staging.has_manifest(write):
                staging.remove(write)
    except KvwalError as error:
        get_logger(__name__).warning("staged rows stay for a later write", write=write, error=str(error))


def _tell_refused(options: WriteOptions, staged: Sequence[Staged]) -> None:
    """Log how many rows the mode has let pass: nothing else tells of them."""
    refused = sum(message.refused for message in staged)
    if refused:
        what = "written with a null value" if options.mode == NULL else "left out"
        get_logger(__name__).warning(f"rows did not fit, and were {what}", business=options.business, rows=refused)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _blocks_of(staged: Sequence[Staged]) -> list[StagedBlock]:
    return [block for message in staged for block in message.blocks]


@contextmanager
def _committing(options: WriteOptions) -> Iterator[Committer]:
    location = options.location
    with open_writer(location, options.names) as store:
        yield Committer(store.map(options.business), options, exclusive=isinstance(location, FolderLocation))
