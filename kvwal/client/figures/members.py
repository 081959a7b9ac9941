"""Figures of all members, asked for at once: each answers for itself, and one that is silent is waited for only so long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hazelcast.errors import HazelcastError
from hazelcast.future import Future as HazelcastFuture

from kvwal.client.failures import translate
from kvwal.client.link import Link
from kvwal.client.member_tasks import ask_figures
from kvwal.cluster.figures.messages import OLDER, ClusterMember, MemberFigures, decode_figures
from kvwal.errors import ConfigError, KvwalError
from kvwal.ports.boundary import logged, when_done
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Signal

NODE = "kvwal.node"
"""Attribute of a cluster member that names its node."""


def described(member: Any) -> ClusterMember:
    """A member of Hazelcast's client, with the address as that client knows it."""
    return ClusterMember(f"{member.address.host}:{member.address.port}", (member.attributes or {}).get(NODE, ""))


def figures_of_all(link: Link, within: float) -> list[MemberFigures]:
    """The figures of each member, oldest member first. A member that has not answered `within` seconds has a sentence instead."""
    members = link.client.cluster_service.get_members()
    asking = [(described(member), _begin(partial(ask_figures, link.client, member))) for member in members]
    _wait([asked for _, asked in asking if isinstance(asked, HazelcastFuture)], within)
    return [_answer(member, asked, within) for member, asked in asking]


_not_noticed = logged("the answer of a member to a question for its figures was not noticed")


def _begin(ask: Callable[[], HazelcastFuture[Any]]) -> HazelcastFuture[Any] | Exception:
    try:
        return ask()
    except (HazelcastError, OSError) as error:
        return error


def _wait(asked: Sequence[HazelcastFuture[Any]], within: float) -> None:
    """Return when all members have answered, or `within` seconds have passed."""
    until = SYSTEM.elapsed() + within
    for one in asked:
        ended = Signal()
        when_done(one, partial(_note, ended), _not_noticed)
        ended.wait(max(0.0, until - SYSTEM.elapsed()))


def _note(ended: Signal, answered: object) -> None:
    ended.set()


def _answer(member: ClusterMember, asked: HazelcastFuture[Any] | Exception, within: float) -> MemberFigures:
    if isinstance(asked, Exception):
        return MemberFigures(member, None, _sentence(asked, member))
    if not asked.done():
        return MemberFigures(
            member, None, f"It has not answered within {within:g} s: see whether it runs, and its load."
        )
    try:
        return MemberFigures(member, decode_figures(bytes(asked.result())))
    except (HazelcastError, OSError) as error:
        return MemberFigures(member, None, _sentence(error, member))


def _sentence(error: Exception, member: ClusterMember) -> str:
    """Why a member gave no figures. One of an earlier version does not know the question."""
    told = translate(error, member.address, writes=False)
    if isinstance(told, ConfigError):
        return OLDER
    return f"{told.what} {told.hint}".strip() if isinstance(told, KvwalError) else str(told)
