"""Diagnosis of a cluster from a client's side, behind `kvwal doctor kvwal://…`: what answers, how fast, and with what."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from kvwal.client.address import check_nodes
from kvwal.counted import counted
from kvwal.errors import KvwalError
from kvwal.location.cluster import ClusterMaps
from kvwal.location.connect import connect
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.diagnose import NOTE, OK, PROBLEM, Finding, failing

if TYPE_CHECKING:
    from kvwal.client.store import ClusterMember, ClusterStore

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


def _check_member(store: ClusterStore, member: ClusterMember, lost: dict[str, int]) -> Iterator[Finding]:
    """Findings about the logs of a member and their maintenance, which the member itself is asked for.

    `lost` gets the number of lost tails of each business that has any: all members see the same ones.
    """
    try:
        failures = store.failures(member)
    except KvwalError as error:
        text = f"it does not say whether its maintenance fails: {error.args[0]}"
        yield Finding(NOTE, member.address, text, "See its /readyz, and its log.")
        return
    for business, tails in failures.lost_tails.items():
        lost[business] = max(tails, lost.get(business, 0))
    for business, job, failure in map(astuple, failures.first):
        yield failing(f"{business} at {member.node}", job, failure)
    if more := failures.count - len(failures.first):
        text = f"{more:,} more jobs of other maps fail."
        yield Finding(
            PROBLEM, member.address, text, "See `maintenance failed` in its log: one cause may be behind all."
        )


def _ask(about: str, addresses: str, cluster: str, namespace: str) -> Iterator[Finding]:
    with connect(addresses, cluster=cluster, namespace=namespace, timeout=_SECONDS) as store:
        members = store.members()
        lost: dict[str, int] = {}
        for member in members:
            yield Finding(OK, member.address, f"it is the member {member.node}.")
            yield from _check_member(store, member, lost)
        for business, tails in sorted(lost.items()):
            what = counted(tails, "interval is", "intervals are")
            text = f"{what} on record of which a lost disk may have taken changes along."
            yield Finding(
                NOTE, business, text, "`kvwal archive list URL` shows from when to when: operations.md, ArchiveGap."
            )
        began = SYSTEM.elapsed()
        counts = {name: count["entries"] for name, count in ClusterMaps(store).stats()["businesses"].items()}
        milliseconds = 1000 * (SYSTEM.elapsed() - began) / (1 + len(counts))
        text = (
            f"it serves {counted(len(counts), 'map')} with {counted(sum(counts.values()), 'entry', 'entries')} on"
            f" {counted(len(members), 'member')};"
            f" a count of all keys of one takes {milliseconds:.0f} ms."
        )
        slow = milliseconds > _SLOW_MS
        yield Finding(NOTE if slow else OK, about, text, "See the load of the nodes: their /metrics." if slow else "")
