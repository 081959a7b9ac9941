"""Queues: which hold items, their figures, and their items, which stay. Of a folder, a cluster and an archive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from typing import cast

from starlette.responses import Response

from kvwal.console.bodies import Refused
from kvwal.console.ownapi import shapes
from kvwal.console.ownapi.entries import json_answer
from kvwal.console.ownapi.operations import Asked
from kvwal.console.parts import Console
from kvwal.console.shared_reader import View
from kvwal.entry import DataEntry
from kvwal.errors import InvalidName
from kvwal.history.reads.structure_rows import ALL_QUEUES
from kvwal.key_class import structure_of
from kvwal.ports.clock import SYSTEM
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.store.reading.queue_items import as_json, oldest_seconds
from kvwal.structures.queue.deliveries import NOT_DELIVERED, Delivery
from kvwal.structures.queue.figures import QueueFigures, figures_of
from kvwal.structures.queue.positions import queue_named, queue_structure


def listed(view: View, business: str) -> list[shapes.Queue]:
    """The queues of a business that hold items."""
    items = view.reader.read_business(business).of_structure(ALL_QUEUES) or ()
    groups = groupby(items, lambda item: structure_of(item.key_class))
    return [_queue(business, queue_named(structure), figures_of(found)) for structure, found in groups]


def items_of(business: BusinessReader, name: str) -> Iterator[DataEntry]:
    """The items of a queue in the order of takes. Raises `Refused` for what is no name."""
    return business.of_structure(_structure(name)) or iter(())


def _structure(name: str) -> str:
    try:
        return queue_structure(name)
    except InvalidName as error:
        raise Refused(400, f"{error.what} {error.hint}".strip()) from error


def _queue(business: str, name: str, figures: QueueFigures) -> shapes.Queue:
    return shapes.Queue(
        business=business, queue=name, items=figures.items, bytes=figures.size, oldest_seconds=oldest_seconds(figures),
        by_priority={str(priority): items for priority, items in figures.by_priority.items()},
    )  # fmt: skip


def _deliveries(business: BusinessReader, name: str) -> dict[bytes, Delivery] | None:
    """What is known of the deliveries of items; None where only a member knows."""
    return business.queue_deliveries(_structure(name)) if isinstance(business, ReadOnlyBusiness) else None


async def queues(console: Console, asked: Asked) -> Response:
    """The queues of a business, or of all."""
    wanted = asked.text("business")

    def read(view: View) -> shapes.Queues:
        names = view.reader.businesses() if wanted is None else [wanted]
        return shapes.Queues(queues=[queue for name in names for queue in listed(view, name)])

    return json_answer(await console.reads.ask(read))


async def stats(console: Console, asked: Asked) -> Response:
    """The figures of one queue."""
    name, queue = asked.part("business"), asked.text("queue") or ""

    def read(view: View) -> shapes.QueueStats:
        business = view.reader.read_business(name)
        known = _deliveries(business, queue)
        now_ms = SYSTEM.wall_ms()
        due = {key for key, each in (known or {}).items() if each.due > now_ms}
        delayed = None if known is None else sum(1 for item in items_of(business, queue) if item.key in due)
        figures = _queue(name, queue, figures_of(items_of(business, queue)))
        found = cast("shapes.QueueStats", {**figures, "delayed": delayed})
        if isinstance(business, ReadOnlyBusiness):
            options = business.queue_options(_structure(queue))
            if options.capacity is not None:
                found["capacity"] = options.capacity
            if options.capacity_bytes is not None:
                found["capacity_bytes"] = options.capacity_bytes
            if options.dead_letters is not None:
                found["dead_letters"] = options.dead_letters
        return found

    return json_answer(await console.reads.ask(read))


async def browse(console: Console, asked: Asked) -> Response:
    """The first items of a queue."""
    name, queue, limit = asked.part("business"), asked.text("queue") or "", asked.count("limit")

    def read(view: View) -> shapes.QueueItems:
        business = view.reader.read_business(name)
        known = _deliveries(business, queue) or {}
        found = [as_json(item, known.get(item.key, NOT_DELIVERED)) for item in islice(items_of(business, queue), limit)]
        return shapes.QueueItems(items=cast("list[shapes.QueueItem]", found))

    return json_answer(await console.reads.ask(read))
