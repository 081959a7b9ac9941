"""What Hazelcast's client raises, as the errors of kvwal: a node's own words, or what is known of the write."""

from __future__ import annotations

import re

from hazelcast import errors as hazelcast

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

_BEFORE = frozenset(
    {
        hazelcast.CallerNotMemberError,
        hazelcast.ClientOfflineError,
        hazelcast.InvocationMightContainCompactDataError,
        hazelcast.PartitionMigratingError,
        hazelcast.RetryableHazelcastError,
        hazelcast.TargetNotMemberError,
        hazelcast.WrongTargetError,
    }
)
"""Errors of a request before anything is done for it: where it is not sent, or comes to a member that does not take it."""
_REFUSED = re.compile(r"kvwal\.node\.NotWritten: (\w+): (.*?)\n", re.DOTALL)
_FIRST_LINE = re.compile(r"Exception from server: (.*?)(?:\n|$)", re.DOTALL)
_LOADING = "still loading"
_NOT_SENT = ("No connection found", "Could not invoke on connection")
_GAVE_UP = "Request timed out because an error occurred"
"""Of Hazelcast's client itself, when the time for more attempts is over."""


def may_be_done(error: Exception) -> bool:
    """Whether the attempt that ended so may have been done. False only where that is certain."""
    text = str(error)
    if isinstance(error, hazelcast.IndeterminateOperationStateError):
        return True
    if (refused := _REFUSED.search(text)) is not None:
        return isinstance(_refusal(refused[1], refused[2]), CommitUnknown)
    # Of a call whose attempts were all for nothing; where one was not, `attempts` says so by another error.
    gave_up = isinstance(error, hazelcast.OperationTimeoutError) and text.startswith(_GAVE_UP)
    return not (gave_up or type(error) in _BEFORE or (isinstance(error, OSError) and text.startswith(_NOT_SENT)))


def translate(error: BaseException, what: str, *, writes: bool) -> BaseException:
    """The error of kvwal that says what is known; `what` names map and members, `writes` that something was to be changed."""
    if isinstance(error, KvwalError) or not isinstance(error, hazelcast.HazelcastError | OSError):
        return error
    text = str(error)
    refused = None if isinstance(error, hazelcast.IndeterminateOperationStateError) else _REFUSED.search(text)
    found = _refusal(refused[1], f"{what}: {refused[2]}") if refused else _by_kind(error, text, what, writes)
    found.__cause__ = error
    return found


def _refusal(name: str, text: str) -> KvwalError:
    """The error that a node named. One that needs more than a sentence (CorruptLog) keeps its name in it."""
    kind = getattr(kvwal.errors, name, None)
    if isinstance(kind, type) and issubclass(kind, KvwalError) and kind.__init__ is KvwalError.__init__:
        return kind(text)
    return CommitUnknown(f"{name}: {text}")


def _by_kind(error: Exception, text: str, what: str, writes: bool) -> KvwalError:
    said = f"{type(error).__name__}: {first_line(error)}"
    if isinstance(error, hazelcast.IndeterminateOperationStateError):
        return _unknown(what, said) if writes else unreachable(f"{what}: the cluster did not answer ({said}).")
    if _LOADING in text:
        return not_recovered(what)
    if isinstance(error, hazelcast.HazelcastClientNotActiveError) and not writes:
        return StoreClosed(f"{what}: the connection to the cluster is closed.", hint="Connect again.")
    if isinstance(error, hazelcast.ClientOfflineError) or any(reason in text for reason in _NOT_SENT):
        return unreachable(f"{what}: no member of the cluster answers; nothing was written.")
    if not may_be_done(error):
        return unreachable(f"{what}: no member of the cluster took it ({said}); nothing was written.")
    return _unknown(what, said) if writes else unreachable(f"{what}: the cluster did not answer ({said}).")


def _unknown(what: str, said: str) -> CommitUnknown:
    return CommitUnknown(
        f"{what}: it is not known whether this was written ({said}).",
        hint="Look whether it is there, or write it again.",
    )


def first_line(error: BaseException) -> str:
    """What an error says, without the stack of the member that it came from."""
    text = str(error)
    found = _FIRST_LINE.search(text)
    return found[1] if found else text


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
