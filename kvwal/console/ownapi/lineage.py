"""Provenance of items, and lineage of data sets."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from starlette.responses import Response

from kvwal.console.bodies import Refused
from kvwal.console.ownapi import shapes
from kvwal.console.ownapi.entries import json_answer, reader_at
from kvwal.console.ownapi.operations import Asked, parsed_key
from kvwal.console.parts import Console
from kvwal.console.shared_reader import Both, View
from kvwal.history.provenance.event_json import as_json
from kvwal.key_class import QUEUE, kind_of
from kvwal.lineage.answer import answer, to_json
from kvwal.lineage.lookup import find_dataset
from kvwal.lineage.reader import Lineage
from kvwal.spark.lineage.names import DatasetName
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.provenance.event import Event
from kvwal.structures.provenance.provenance import Provenance

_NO_FOLDER = "Provenance is read from the folder of a store: this console shows another kind of location."


def _provenance(view: View, business: str) -> Provenance:
    store = view.reader
    if not isinstance(store, ReadOnlyStore):
        raise Refused(404, _NO_FOLDER)
    return store.provenance(business)


def _of_key(asked: Asked, of: str | None) -> Any:
    typed = asked.raw("key")
    if typed is None:
        return None
    return parsed_key(typed, "int" if of is not None and kind_of(of) == QUEUE else asked.choice("key_class"))


def _events(found: list[Event]) -> shapes.Events:
    return shapes.Events(events=cast("list[shapes.Event]", [as_json(event) for event in found]))


async def search(console: Console, asked: Asked) -> Response:
    """The events of a business for which all parameters hold, newest first."""
    business, of = asked.part("business"), asked.text("of")
    key = _of_key(asked, of)
    kind, component, text = (asked.text(name) for name in ("type", "component", "text"))
    after, before, limit = asked.moment("after"), asked.moment("before"), asked.count("limit")

    def read(view: View) -> shapes.Events:
        provenance = _provenance(view, business)
        return _events(
            provenance.events(
                key, of=of, type=kind, component=component, text=text, after=after, before=before, limit=limit
            )
        )

    return json_answer(await console.reads.ask(read))


async def item_lineage(console: Console, asked: Asked) -> Response:
    """The events that made an item, and those of what was made of it."""
    business, of = asked.part("business"), asked.text("of") or ""
    key, direction, depth = _of_key(asked, of), asked.choice("direction"), asked.count("depth")

    def read(view: View) -> shapes.Events:
        up, down = direction != "down", direction != "up"
        return _events(_provenance(view, business).lineage(key, of=of, up=up, down=down, depth=depth or None))

    return json_answer(await console.reads.ask(read))


def graph_at(view: View, at: int | None) -> Lineage:
    """The graph of data sets, now or at a timestamp. That of now is made once for all requests of a second."""
    return view.made_of_both(_graph_now) if at is None else Lineage(reader_at(view, at))


def _graph_now(both: Both) -> Lineage:
    graph = Lineage(both.reader, both.records)
    _ = graph.names  # read here, so that no page waits for them
    return graph


async def dataset(console: Console, asked: Asked) -> Response:
    """Where the data of a data set come from, and where they go."""
    name, at, direction, depth = (
        asked.text("dataset") or "",
        asked.moment("at"),
        asked.choice("direction"),
        asked.count("depth"),
    )

    def read(view: View) -> dict[str, Any]:
        graph = graph_at(view, at)
        up, down = direction != "down", direction != "up"
        return to_json(answer(graph, find_dataset(graph.graph, name), up=up, down=down, depth=depth or None))

    return json_answer(await console.reads.ask(read))


def named(name: DatasetName) -> shapes.Dataset:
    """A data set as an answer has it."""
    return shapes.Dataset(dataset=name.text, namespace=name.namespace, name=name.name, table=name.table)


async def datasets(console: Console, asked: Asked) -> Response:
    """The data sets whose name has a text."""
    text, at, limit = asked.text("text") or "", asked.moment("at"), asked.count("limit")

    def read(view: View) -> shapes.Datasets:
        found = graph_at(view, at).names.matching(text)
        return shapes.Datasets(datasets=[named(each) for each in islice(found, limit)], found=len(found))

    return json_answer(await console.reads.ask(read))
