"""The query process of the console: one statement a line on standard input, one answer a line, until the input ends.

DuckDB's memory limit does not count long texts and lists, and a part of a statement that makes one cannot be interrupted. So the
system limits the memory of this process, and the console ends it when a statement takes too long.
"""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa

from kvwal.console.queries.question import Answered, Question, decode_question, encode
from kvwal.errors import ConfigError, Kind, KvwalError
from kvwal.location.moments import MomentReader
from kvwal.location.opening import open_reader
from kvwal.location.parse import parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.ports.processes import end_after, limit_memory, serve_parent
from kvwal.sql.engine import QueryResult, answered
from kvwal.sql.plain import plain

MEMORY_BYTES = 3 << 30
"""Memory of the process: DuckDB's 512 MiB, what the store's tables take while they are read, and the answer."""
MOST_BYTES = 32 << 20
"""Bytes of an answer."""
_SPARE_SECONDS = 15
"""How long after the time limit the process ends by itself: the console, which ends it first, may have been killed."""
_ROWS = 1024
_STATUSES = {Kind.CALLER: 400, Kind.RETRY: 503, Kind.DAMAGE: 500, Kind.BUG: 500}
_TOO_MUCH_MEMORY = (
    f"The statement needs more than the {MEMORY_BYTES >> 30} GiB of memory that a query of the console has."
    " Select fewer rows or shorter values, or ask with `kvwal query`."
)
_TOO_LONG = (
    f"The answer is longer than {MOST_BYTES >> 20} MiB. Select fewer rows or columns, or ask with `kvwal query`."
)


def main() -> None:
    """Answer the statements of the console."""
    limit_memory(MEMORY_BYTES)
    pa.set_cpu_count(1)
    logging.disable(logging.WARNING)  # the console logs: what a reader warns of is on the page of operations
    serve_parent(lambda line: encode(_answer(decode_question(line))))


def _answer(question: Question) -> Answered:
    end_after(question.seconds + _SPARE_SECONDS)
    try:
        return _asked(question)
    except KvwalError as error:
        return Answered(status=_STATUSES[error.kind], error=f"{error.what} {error.hint}".strip())
    except MemoryError:
        return Answered(status=413, error=_TOO_MUCH_MEMORY)
    finally:
        end_after(0)


def _asked(question: Question) -> Answered:
    place = question.place
    with open_reader(parse_location(OS_DISK, place.location), place.names) as store:
        reader = store if question.at is None else MomentReader(store, question.at)
        sources = {"": reader.source(question.sql)}
        try:
            with answered(sources, question.sql, confined=True) as result:
                return _arrow(result, question) if question.form == "arrow" else _rows(result, question)
        except ConfigError as error:
            if "Out of Memory" in error.what:
                return Answered(status=413, error=_TOO_MUCH_MEMORY)
            raise


def _rows(result: QueryResult, question: Question) -> Answered:
    found = Answered(columns=result.columns, types=result.types)
    size = 0
    for row in result.rows(_ROWS):
        if len(found.rows) == question.most_rows:
            found.is_whole = False
            break
        found.rows.append([plain(value) for value in row])
        size += len(encode(found.rows[-1]))
        if size > MOST_BYTES:
            return Answered(status=413, error=_TOO_LONG)
    return found


def _arrow(result: QueryResult, question: Question) -> Answered:
    found = Answered(columns=result.columns, types=result.types)
    table = result.table(question.most_rows + 1)
    if table.nbytes > MOST_BYTES:
        return Answered(status=413, error=_TOO_LONG)
    found.is_whole = table.num_rows <= question.most_rows
    sink = pa.BufferOutputStream()
    kept: Any = table.slice(0, question.most_rows)
    with pa.ipc.new_stream(sink, kept.schema) as stream:
        stream.write_table(kept)
    found.arrow = sink.getvalue().to_pybytes()
    return found


if __name__ == "__main__":
    main()
