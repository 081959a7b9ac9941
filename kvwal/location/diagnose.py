"""Diagnosis of a cluster from a client's side, behind `kvwal doctor kvwal://…`: what answers, how fast, and with what."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from kvwal.client.address import check_nodes
from kvwal.client.connect import connect
from kvwal.errors import KvwalError
from kvwal.location.cluster import ClusterReader
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.diagnose import NOTE, OK, PROBLEM, Finding

_SECONDS = 5.0
_SLOW_MS = 500.0
"""An answer that takes longer is noted."""


def diagnose_cluster(addresses: str, cluster: str, namespace: str) -> Iterator[Finding]:
    """Findings about each address, the members, and whether the cluster serves its maps. Nothing is changed.

    It waits up to 5 s for each address and for each answer.
    """
    answering = 0
    for host, port in check_nodes(addresses):
        finding = _reach(host, port)
        answering += finding.level == OK
        yield finding
    if answering:
        about = f"cluster {cluster}"
        try:
            yield from _ask(about, addresses, cluster, namespace)
        except KvwalError as error:
            yield Finding(PROBLEM, about, str(error.args[0]), getattr(error, "hint", ""))


def _reach(host: str, port: int) -> Finding:
    about = f"{host}:{port}"
    began = SYSTEM.elapsed()
    try:
        socket.create_connection((host, port), _SECONDS).close()
    except OSError as error:
        return Finding(
            PROBLEM,
            about,
            f"it does not answer ({error.strerror or error}).",
            "See whether the node runs, and the network.",
        )
    return Finding(OK, about, f"the port answers, after {1000 * (SYSTEM.elapsed() - began):.0f} ms.")


def _ask(about: str, addresses: str, cluster: str, namespace: str) -> Iterator[Finding]:
    with connect(addresses, cluster=cluster, namespace=namespace, timeout=_SECONDS) as store:
        members = store.members()
        for member in members:
            yield Finding(OK, member.address, f"it is the member {member.node}.")
        reader = ClusterReader(store)
        began = SYSTEM.elapsed()
        counts = {name: count["entries"] for name, count in reader.stats()["businesses"].items()}
        milliseconds = 1000 * (SYSTEM.elapsed() - began) / (1 + len(counts))
        text = (
            f"it serves {len(counts)} businesses with {sum(counts.values()):,} entries on {len(members)} members;"
            f" a count of all keys of one takes {milliseconds:.0f} ms."
        )
        slow = milliseconds > _SLOW_MS
        yield Finding(NOTE if slow else OK, about, text, "See the load of the nodes: their /metrics." if slow else "")
