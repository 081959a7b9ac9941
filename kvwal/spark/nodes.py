"""The nodes of a root that recorders share: one for each application that is being recorded, and one for all the others."""

from __future__ import annotations

from pathlib import Path

from archive.layout import Place
from kvwal.codecs import registry
from kvwal.history.tail_reader import find_entry
from kvwal.log.files.names import find_places
from kvwal.ports.disk import Disk
from kvwal.spark.eventlog.log_reader import BUSINESS
from kvwal.spark.records import app_prefix

SHARED = "shared"
"""The node for the records of all finished applications, in a root where no other node is theirs."""


def application_node(app: str, attempt: str) -> str:
    """The node as which a recorder that was given a root records an application."""
    return "-".join(filter(None, (app, attempt)))


def is_application_node(disk: Disk, root: Path, place: Place) -> bool:
    """Whether a recorder made this log: it has the record of the application that the node is named after."""
    app, _, attempt = place.node.rpartition("-")
    for prefix in (app_prefix(place.node), app_prefix(app, attempt)):
        key, key_class = registry.encode_key(f"{prefix}/app")
        if find_entry(disk, root, place, (key_class, key)) is not None:
            return True
    return False


def shared_node(disk: Disk, root: Path, namespace: str, cluster: str) -> str | None:
    """The node that the records of finished applications and of event logs belong to, in a root with several nodes.

    It is `SHARED` if there is such a node, else the only node that no recorder made, else `SHARED`. None for a root with at
    most one node, where `choose_node` chooses.
    """
    places = find_places(disk, root, namespace, cluster)
    nodes = {place.node for place in places}
    if len(nodes) <= 1:
        return None
    if SHARED in nodes:
        return SHARED
    recorded = {place.node for place in places if place.business == BUSINESS and is_application_node(disk, root, place)}
    others = nodes - recorded
    return min(others) if len(others) == 1 else SHARED
