"""What Hazelcast's client raises, as the errors of kvwal: a node's own words, or what is known of the write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hazelcast import errors as hazelcast
from hazelcast.protocol.codec import map_delete_codec, map_set_codec

import kvwal.errors
from kvwal.errors import ClusterUnreachable, CommitUnknown, KvwalError, NotRecovered, StoreClosed, WrongLoop

UNKNOWN = (
    hazelcast.IndeterminateOperationStateError,
    hazelcast.TargetDisconnectedError,
    hazelcast.MemberLeftError,
    hazelcast.HazelcastInstanceNotActiveError,
    hazelcast.RetryableIOError,
    hazelcast.HazelcastIOError,
)
"""Errors after which the member may or may not have done what it was asked."""

_BLIND = frozenset({map_set_codec._REQUEST_MESSAGE_TYPE, map_delete_codec._REQUEST_MESSAGE_TYPE})
"""Requests that say what shall be there, whatever is there: doing them twice ends as doing them once."""
_TYPE_OFFSET = 6
_REFUSED = re.compile(r"kvwal\.node\.NotWritten: (\w+): (.*?)\n", re.DOTALL)
_FIRST_LINE = re.compile(r"Exception from server: (.*?)(?:\n|$)", re.DOTALL)
_LOADING = "still loading"
_NOT_SENT = ("No connection found", "Could not invoke on connection")

Retry = Callable[[Any, Exception], bool]


def retry_of(original: Retry) -> Retry:
    """Whether a request is sent again after an error: Hazelcast's own rule, but for those that leave its outcome open.

    After such an error a read, a put and a delete are sent again, and nothing else ever is: a condition that is decided
    twice may answer for a moment that its first decision made.
    """

    def should_retry(invocation: Any, error: Exception) -> bool:
        request = invocation.request
        if isinstance(error, UNKNOWN):
            again: bool = request.retryable or _type_of(request) in _BLIND
            return again and invocation.connection is None
        return original(invocation, error)

    return should_retry


def _type_of(request: Any) -> int:
    return int.from_bytes(request.buf[_TYPE_OFFSET : _TYPE_OFFSET + 4], "little", signed=True)


def translate(error: BaseException, what: str, *, writes: bool) -> BaseException:
    """The error of kvwal that says what is known; `what` names map and members, `writes` that something was to be changed."""
    if isinstance(error, KvwalError) or not isinstance(error, hazelcast.HazelcastError | OSError):
        return error
    text = str(error)
    refused = _REFUSED.search(text)
    found = _refusal(refused[1], f"{what}: {refused[2]}") if refused else _by_kind(error, text, what, writes)
    found.__cause__ = error
    return found


def _refusal(name: str, text: str) -> KvwalError:
    """The error that a node named. One that needs more than a sentence (CorruptLog) keeps its name in it."""
    kind = getattr(kvwal.errors, name, None)
    if isinstance(kind, type) and issubclass(kind, KvwalError) and kind.__init__ is KvwalError.__init__:
        return kind(text)
    return CommitUnknown(f"{name}: {text}")


def _by_kind(error: BaseException, text: str, what: str, writes: bool) -> KvwalError:
    if _LOADING in text:
        return not_recovered(what)
    if isinstance(error, hazelcast.HazelcastClientNotActiveError) and not writes:
        return StoreClosed(f"{what}: the connection to the cluster is closed.", hint="Connect again.")
    if isinstance(error, hazelcast.ClientOfflineError) or any(reason in text for reason in _NOT_SENT):
        return unreachable(f"{what}: no member of the cluster answers; nothing was written.")
    first = _FIRST_LINE.search(text)
    said = f"{type(error).__name__}: {first[1] if first else text}"
    if writes:
        return CommitUnknown(
            f"{what}: it is not known whether this was written ({said}).",
            hint="Look whether it is there, or write it again.",
        )
    return unreachable(f"{what}: the cluster did not answer ({said}).")


def not_recovered(what: str) -> NotRecovered:
    """Nothing was written."""
    return NotRecovered(
        f"{what}: the cluster is still loading what its logs hold; nothing was read or written.",
        hint="Wait until /readyz of its nodes says that they are ready.",
    )


def unreachable(sentence: str) -> ClusterUnreachable:
    """`sentence` says who does not answer."""
    return ClusterUnreachable(sentence, hint="See whether the nodes run, and whether this machine reaches them.")


def would_wait() -> WrongLoop:
    """For a call on the thread that brings the answers."""
    return WrongLoop(
        "this is the thread that brings the cluster's answers (a callback of a future runs here), and the call would wait"
        " for one; nothing was read or written.",
        hint="Use `submit` here, or call from a thread of your own.",
    )
