"""What a write begins that was not there: a store, a namespace, a cluster or a map. A mistyped name begins one, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvwal.log.files.names import find_places, some
from kvwal.ports.disk import Disk


def begun_in_folder(
    disk: Disk, root: Path, namespace: str, cluster: str, business: str, *, what: str | None = None
) -> str:
    """A sentence on what the first entry of this business begins under a root; empty if the business is there.

    `what` is the structure of the entry, with its name: the business's own map by default.
    """
    what = what or f"map {business}"
    closed: set[str] = set()
    if find_places(disk, root, namespace, cluster, business, closed) or closed:
        return ""
    places = find_places(disk, root, closed=closed)
    if not places:
        return "" if closed else f"{root} is new: a store begins there, with the {what}."
    if namespace not in (there := sorted({place.namespace for place in places})):
        return _is_new(f"namespace {namespace}", str(root), there, namespace)
    places = [place for place in places if place.namespace == namespace]
    if cluster not in (there := sorted({place.cluster for place in places})):
        return _is_new(f"cluster {cluster}", f"{root}, {namespace}", there, cluster)
    there = sorted({place.business for place in places if place.cluster == cluster})
    return _is_new(what, f"{root}, {namespace}/{cluster}", there, business)


def begun_in_cluster(cluster: str, business: str, there: Sequence[str], *, what: str | None = None) -> str:
    """A sentence on a business that begins in a cluster with these businesses; empty if it is one of them.

    `what` is as in `begun_in_folder`.
    """
    return "" if business in there else _is_new(what or f"map {business}", f"the cluster {cluster}", there, business)


def _is_new(what: str, where: str, there: Sequence[str], name: str) -> str:
    return f"the {what} is new in {where} (there are: {some(there, name)})."
