"""The making of a base: a plan, its parts, and its commit last.

The name of a base is the hash of what decides its rows and where they are cut. So two processes that make the same base put the
same parts, a killed one is run again and finds the parts that are there, and a half base is never taken for a whole one.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kvwal_archive.bases.record import Base, BasePosition, Part, encode_base
from kvwal_archive.bases.select import BaseFiles, LogRead, base_files, newest_base, read_base
from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ConfigError
from kvwal_archive.layout import LOGICAL_BITS, MAX_NUMBER, BaseName, PartNumber, Place, Span, base_folder, base_key
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import Identity
from kvwal_archive.parquet.metadata import read_footer
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import DAMAGED_HINT, Footer, ObjectInfo, schema
from kvwal_archive.view import NodePart, after_base, parts
from kvwal_archive.writer import encode

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 64 << 20
ROW_COST = 64
"""Bytes that a row counts in a piece beside its key and value, so that small rows do not make a piece of millions."""
_VARYING = ("body_crc", "chunk_crcs", "filter_crcs", "footer_crc")
"""Fields of a footer that depend on the version of the Parquet writer, and not on the rows alone."""


class BasePlan(NamedTuple):
    """The base to make. Of the deletes of a node, those older than `limits` of the node are left out."""

    name: BaseName
    positions: dict[str, BasePosition]
    limits: dict[str, int]


class BaseInputs(NamedTuple):
    """What a base is made of: all rows up to `positions`. `current`: the newest base, if it ends there already."""

    positions: dict[str, BasePosition]
    node_parts: list[NodePart]
    current: Base | None

    def infos(self) -> list[ObjectInfo]:
        """The objects and the parts of an earlier base that are read."""
        return [info for part in self.node_parts for info in (*part.base, *part.infos)]


def base_inputs(objects: Objects, where: tuple[str, str, str]) -> BaseInputs:
    """What a base up to the end of the archive is made of, beginning with the newest base that fits.

    Raises ConfigError if nothing is archived, and as `view.parts`.
    """
    whole = parts(objects, *where)
    positions = {part.place.node: _position(part.infos) for part in whole}
    if not any(position.sequence for position in positions.values()):
        raise ConfigError(
            f"{objects.url}: nothing of {'/'.join(where)} is archived, so there is nothing to make a base of.",
            hint="Check the URL and the names, or archive first: `kvwal archive run`.",
        )
    known = newest_base(objects, where, {part.place.node: LogRead(part.infos) for part in whole})
    if known is None:
        return BaseInputs(positions, whole, None)
    return BaseInputs(positions, after_base(whole, known), known if known.positions == positions else None)


def _position(infos: Sequence[ObjectInfo]) -> BasePosition:
    """The end of a log in the archive, by its live objects."""
    if not infos:
        return BasePosition("", 0, 0, 0)
    last = max(infos, key=lambda info: info.span.last)
    timestamp = max(info.footer.max_timestamp for info in infos)
    return BasePosition(last.footer.log_id, last.span.last, timestamp, max(info.span.horizon for info in infos))


def plan_base(where: tuple[str, str, str], inputs: BaseInputs, cuts: Sequence[Identity] = ()) -> BasePlan:
    """The plan of a base of these inputs. `cuts` are where the keys are cut into ranges. Pure."""
    positions = inputs.positions
    made_of = {
        "where": where,
        "positions": positions,
        "inputs": sorted((info.key, info.footer.footer_crc) for info in inputs.infos()),
        "cuts": cuts,
        "pieces": (PIECE_BYTES, ROW_COST),
    }
    digest = hashlib.sha256(msgspec.json.encode(made_of, order="deterministic")).hexdigest()[:32]
    newest = max(position.timestamp for position in positions.values())
    return BasePlan(BaseName(*where, newest, digest), positions, {node: _limit(node, positions) for node in positions})


def _limit(node: str, positions: dict[str, BasePosition]) -> int:
    """The timestamp below which deletes of a node are left out: no read of an earlier time is answered, and the archive of every
    other node has passed it. Rows of the newest timestamp stay."""
    passed = min((other.timestamp for name, other in positions.items() if name != node), default=MAX_NUMBER)
    own = positions[node]
    return min(own.horizon, passed + 1, own.timestamp)


def put_parts(objects: Objects, plan: BasePlan, number: int, rows: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    """Put the parts of the range `number`, whose latest rows are `rows`, and give the record of each when it is confirmed.

    A part that is there already is checked to its last byte. Raises ArchiveDamaged if it is not what it should be, ArchiveError.
    """
    for piece, table in enumerate(_pieces(rows)):
        for node in sorted(plan.positions):
            of_node = _rows_of(table, node, plan.limits[node])
            if len(of_node):
                yield _put_part(objects, plan, PartNumber(number, piece, node), of_node)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of about PIECE_BYTES. Where they are cut depends on the rows, and not on the batches."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    filled = 0
    for batch in batches:
        rest = batch
        while len(rest):
            taken, size = _taken(rest, PIECE_BYTES - filled)
            waiting.append(rest.slice(0, taken))
            rest, filled = rest.slice(taken), filled + size
            if filled >= PIECE_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, filled = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _taken(batch: pa.RecordBatch, wanted: int) -> tuple[int, int]:
    """The number of rows, from the first on, that together count `wanted` bytes or more, and what they count; or all rows."""
    import pyarrow.compute as pc

    lengths = (pc.cast(pc.binary_length(batch.column(name)), "int64") for name in ("key", "value"))
    ends = pc.cumulative_sum(pc.add(pc.add(*lengths), ROW_COST))
    taken = min(len(batch), pc.sum(pc.less(ends, wanted)).as_py() + 1)
    return taken, ends[taken - 1].as_py()


def _rows_of(table: pa.Table, node: str, limit: int) -> pa.Table:
    """The rows of one node, without the deletes and the expired rows that are older than `limit`."""
    import pyarrow.compute as pc

    rows = table.filter(pc.equal(table.column("node"), node))
    expires = rows.column("expires")
    expired = pc.and_(pc.greater(expires, 0), pc.less_equal(expires, limit >> LOGICAL_BITS))
    goes = pc.and_(pc.or_(rows.column("deleted"), expired), pc.less(rows.column("timestamp"), limit))
    return rows.filter(pc.invert(goes)).select(schema().names).cast(schema()).combine_chunks()


def _put_part(objects: Objects, plan: BasePlan, number: PartNumber, rows: pa.Table) -> Part:
    position, name = plan.positions[number.node], plan.name
    place = Place(name.namespace, name.cluster, name.business, number.node)
    span = Span(1, position.sequence, name.timestamp + 1)
    footer, data = encode(place, span, rows, Seals(position.log_id, 0, []))
    key, size = base_key(name, number), len(data)
    if objects.put_if_absent(key, data):
        objects.confirm(key, data)
    else:
        stored = objects.read(key)
        existing = read_footer(io.BytesIO(stored), key, whole=True)
        if _of_rows(existing) != _of_rows(footer):
            raise ArchiveDamaged(f"{objects.url}: {key} has other rows than this base has there.", hint=DAMAGED_HINT)
        footer, size = existing, len(stored)
    return Part(range=number.range, piece=number.piece, size=size, footer=footer)


def _of_rows(footer: Footer) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(footer).items() if name not in _VARYING}


def commit_base(objects: Objects, plan: BasePlan, parts: Iterable[Part]) -> Base:
    """Put the commit of a base, all parts of which are confirmed, and return the base. From then on readers may begin with it.

    Raises ArchiveError if gc took a part meanwhile, because the base took longer than the grace period. Then it is run again.
    """
    in_order = sorted(parts, key=lambda part: (part.range, part.piece, part.number.node))
    name = plan.name
    base = Base(**name._asdict(), positions=plan.positions, parts=in_order)
    data = encode_base(base)
    if objects.put_if_absent(base.key, data):
        objects.confirm(base.key, data)
    listed = base_files(objects.list(base_folder(*name[:3])))
    stored = read_base(objects, name, listed.get(name, BaseFiles(None, {})))
    if stored is None:
        objects.delete(base.key)
        raise ArchiveError(
            f"{objects.url}: a part of {base.key} was removed before the base was whole.", hint="Run it again."
        )
    return stored
