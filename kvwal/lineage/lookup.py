"""A data set as a person types it: the one in the graph that is meant, or the names that come nearest."""

from __future__ import annotations

from difflib import get_close_matches

from kvwal.errors import ConfigError
from kvwal.lineage.graph import Graph, Key
from kvwal.spark.lineage.names import canonical, name_of_path

_MOST_COMPARED = 20_000
"""Names that are compared letter by letter: more of them would take seconds."""
_MOST_NAMED = 5


def find_dataset(graph: Graph, typed: str, here: str | None = None) -> Key:
    """The data set that is meant: by its name as kvwal prints it, by a path or URL in any spelling, by
    `<namespace>/<name>`, or by its table in a catalog (`default.sales`). `here` is the whole path of a relative one that exists.

    Raises `ConfigError` if there is none, with the names that come nearest.
    """
    path = name_of_path(typed)
    candidates = [] if path is None else [path.key]
    candidates += [canonical(namespace, name) for namespace, name in _splits(typed)]
    candidates += _tables(typed)
    if here is not None and (local := name_of_path(here)) is not None:
        candidates.append(local.key)
    for key in candidates:
        if (found := graph.find(key)) is not None:
            return found
    raise ConfigError(f"There is no data set {typed!r} here.", hint=_nearest(graph, typed))


def _splits(typed: str) -> list[tuple[str, str]]:
    """Every way to read a text as `<namespace>/<name>`."""
    return [
        (typed[:at], typed[at + 1 :]) for at, letter in enumerate(typed) if letter == "/" and 0 < at < len(typed) - 1
    ]


def _tables(typed: str) -> list[tuple[str, str]]:
    """The names in a catalog that a text may mean: with the catalog, and without it."""
    if "/" in typed or "." not in typed:
        return []
    catalog, _, rest = typed.partition(".")
    return [(catalog, rest), ("spark_catalog", typed), ("jdbc", typed)]


def _nearest(graph: Graph, typed: str) -> str:
    """The hint of a name that is not there."""
    names = list(graph.names())
    texts = [name.text for name in names]
    if not texts:
        return (
            "Nothing here names a data set: `kvwal jobs` lists what was recorded, and docs/lineage.md says what counts."
        )
    named = texts + [name.table for name in names if name.table]
    last = typed.rstrip("/").rpartition("/")[2].lower()
    same = [text for text in named if last and last in text.lower()]
    compared = sorted(set(same or named))[:_MOST_COMPARED]
    near = get_close_matches(typed, compared, _MOST_NAMED, 0.5) or compared[:_MOST_NAMED]
    return f"The nearest of {len(texts):,}: {', '.join(near)}."
