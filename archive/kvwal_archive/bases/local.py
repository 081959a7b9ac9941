"""The making of a base on one machine, in bounded memory and without Spark."""

from __future__ import annotations

from collections.abc import Callable

from kvwal_archive.bases.build import base_inputs, commit_base, plan_base, put_parts
from kvwal_archive.bases.record import Base
from kvwal_archive.objects import Objects
from kvwal_archive.reader import listed_again
from kvwal_archive.view import latest_of

Progress = Callable[[int, int, str], None]


def make_base(
    objects: Objects, namespace: str, cluster: str, business: str, *, progress: Progress | None = None
) -> Base:
    """Make the base of a business up to the end of what is archived of each node, and return it.

    If the newest base ends there, it is returned. An earlier base that fits is the beginning of the new one. `progress` is
    called with rows. Raises ConfigError if nothing is archived, ArchiveGap if a range is missing, ArchiveDamaged, ArchiveError.
    After any error, or if it is killed, the call can be made again.
    """
    where = (namespace, cluster, business)

    def make() -> Base:
        inputs = base_inputs(objects, where)
        if inputs.current is not None:
            return inputs.current
        total = sum(info.footer.rows for info in inputs.infos())
        made, rows = [], 0
        plan = plan_base(where, inputs)
        for part in put_parts(objects, plan, 0, latest_of(objects, inputs.node_parts)):
            made.append(part)
            rows += part.footer.rows
            if progress:
                progress(rows, total, f"base of {'/'.join(where)}")
        return commit_base(objects, plan, made)

    return listed_again(make)
