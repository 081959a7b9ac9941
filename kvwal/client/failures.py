"""Translation of errors of Hazelcast's client to errors of kvwal.

The error of kvwal is the error that a node named. Without such a name it says whether the write may have been done.
"""

from __future__ import annotations

import re

from hazelcast import errors as hazelcast

import kvwal.errors
from kvwal.errors import (
    ClusterUnreachable,
    CommitUnknown,
    ConfigError,
    KvwalError,
    LogFailed,
    NotRecovered,
    StoreClosed,
    WrongLoop,
)

UNKNOWN = (
    hazelcast.IndeterminateOperationStateError,
    hazelcast.TargetDisconnectedError,
    hazelcast.MemberLeftError,
    hazelcast.HazelcastInstanceNotActiveError,
    hazelcast.RetryableIOError,
    hazelcast.HazelcastIOError,
)
"""Errors after which the member may or may not have done the request."""

_BEFORE = frozenset(
    {
        hazelcast.CallerNotMemberError,
        hazelcast.InvocationMightContainCompactDataError,
        hazelcast.PartitionMigratingError,
        hazelcast.RetryableHazelcastError,
        hazelcast.TargetNotMemberError,
        hazelcast.WrongTargetError,
    }
)
"""Errors of a request that the member did not accept."""
_REFUSED = re.compile(r"kvwal\.node\.NotWritten: (\w+): (.*?)\n", re.DOTALL)
_FIRST_LINE = re.compile(r"Exception from server: (.*?)(?:\n|$)", re.DOTALL)
_LOADING = "still loading"
_WHOLE_REFUSED = re.compile(r"Map .* is still loading\.", re.DOTALL)
"""What a member that fills its memory answers to each request for a map, before it gives any of it to a partition (ReadyGate)."""
_NO_TASK = re.compile(r"there is no task \d+|runs kvwal's own tasks only")
"""What a member of an earlier version answers to a request that it does not know: its TaskFactory, or before that its
ServicePolicy, which lets no other task of a client in. It did nothing."""
_NOT_SENT = ("No connection found", "Could not invoke on connection")
_GAVE_UP = "Request timed out because an error occurred"
"""How Hazelcast's client begins its error when the timeout of a call is over."""


def may_be_done(error: Exception) -> bool:
    """Whether the attempt that ended with this error may have been done. False only if it certainly was not done."""
    text = str(error)
    if isinstance(error, hazelcast.IndeterminateOperationStateError):
        return True
    if _NO_TASK.search(text):
        return False
    if (refused := _REFUSED.search(text)) is not None:
        return isinstance(_refusal(refused[1], refused[2], writes=True), CommitUnknown)
    # The client gives up so after attempts of which none was done. After any other attempt, `attempts` raises another error.
    gave_up = isinstance(error, hazelcast.OperationTimeoutError) and text.startswith(_GAVE_UP)
    return not gave_up and type(error) not in _BEFORE and was_sent(error)


def was_sent(error: Exception) -> bool:
    """Whether a member may have got the request of the attempt that ended with this error. False only if it certainly did not."""
    not_sent = isinstance(error, OSError) and str(error).startswith(_NOT_SENT)
    return not (not_sent or isinstance(error, hazelcast.ClientOfflineError))


def may_be_done_in_part(error: Exception) -> bool:
    """Whether some partition may have done its part of the request. False if no member got it, or a member refused all of it."""
    return was_sent(error) and _WHOLE_REFUSED.search(first_line(error)) is None


def translate(error: BaseException, label: str, *, writes: bool) -> BaseException:
    """The error of kvwal for an error of Hazelcast's client; other errors are returned as they are.

    `label` names map and members. `writes` says that the call was to change something, so its outcome may be unknown.
    """
    if isinstance(error, KvwalError) or not isinstance(error, hazelcast.HazelcastError | OSError):
        return error
    text = str(error)
    refused = None if isinstance(error, hazelcast.IndeterminateOperationStateError) else _REFUSED.search(text)
    if refused:
        translated = _refusal(refused[1], f"{label}: {refused[2]}", writes=writes)
    else:
        translated = _by_kind(error, text, label, writes)
    translated.__cause__ = error
    return translated


def _refusal(name: str, text: str, *, writes: bool) -> KvwalError:
    """The error that a node named. For one that is made of more than a sentence (`CorruptLog`), or that is none of kvwal's, it is
    `CommitUnknown` with that name, or `LogFailed` if the call was to change nothing.
    """
    kind = getattr(kvwal.errors, name, None)
    if isinstance(kind, type) and issubclass(kind, KvwalError) and kind.__init__ is KvwalError.__init__:
        return kind(text)
    return (CommitUnknown if writes else LogFailed)(f"{name}: {text}")


def _by_kind(error: Exception, text: str, label: str, writes: bool) -> KvwalError:
    reason = f"{type(error).__name__}: {first_line(error)}"
    if isinstance(error, hazelcast.IndeterminateOperationStateError):
        return _unknown(label, reason) if writes else unreachable(f"{label}: the cluster did not answer ({reason}).")
    if _NO_TASK.search(text):
        return ConfigError(
            f"{label}: a member of the cluster is of an earlier version and does not know this request; nothing was written.",
            hint="Update all members to the version of this client.",
        )
    if _LOADING in text:
        return not_recovered(label)
    if isinstance(error, hazelcast.HazelcastClientNotActiveError) and not writes:
        return StoreClosed(f"{label}: the connection to the cluster is closed.", hint="Connect again.")
    if isinstance(error, hazelcast.ClientOfflineError) or any(sentence in text for sentence in _NOT_SENT):
        return unreachable(f"{label}: no member of the cluster answers; nothing was written.")
    if not may_be_done(error):
        return unreachable(f"{label}: no member of the cluster accepted it ({reason}); nothing was written.")
    return _unknown(label, reason) if writes else unreachable(f"{label}: the cluster did not answer ({reason}).")


def _unknown(label: str, reason: str) -> CommitUnknown:
    return CommitUnknown(
        f"{label}: it is not known whether this was written ({reason}).",
        hint="Look whether it is there, or write it again.",
    )


def first_line(error: BaseException) -> str:
    """Message of an error, without the stack of the member that sent it."""
    text = str(error)
    match = _FIRST_LINE.search(text)
    return match[1] if match else text


def not_recovered(label: str) -> NotRecovered:
    """The error of a call while the cluster loads its memory. Nothing was written."""
    return NotRecovered(
        f"{label}: the cluster is still loading its logs; nothing was read or written.",
        hint="Wait until /readyz of its nodes says that they are ready.",
    )


def unreachable(sentence: str) -> ClusterUnreachable:
    """The error of a cluster that does not answer. `sentence` names the address or the map."""
    return ClusterUnreachable(sentence, hint="See whether the nodes run, and whether this machine reaches them.")


def would_wait() -> WrongLoop:
    """The error of a blocking call on the thread that delivers answers."""
    return WrongLoop(
        "this thread delivers the cluster's answers (callbacks of futures run here), so this call would wait for ever;"
        " nothing was read or written.",
        hint="Use `submit` here, or call from a thread of your own.",
    )
