"""What a call of a client of the cluster ends with, after attempts of every kind: Hazelcast's own client, scripted answers."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hazelcast.errors import (
    HazelcastError,
    OperationTimeoutError,
    RetryableHazelcastError,
    TargetDisconnectedError,
    UndefinedErrorCodeError,
)
from hazelcast.invocation import Invocation, InvocationService
from hazelcast.protocol.client_message import OutboundMessage
from hazelcast.protocol.codec import map_clear_codec, map_delete_codec, map_put_if_absent_codec, map_set_codec
from hazelcast.serialization.data import Data

from kvwal.client.attempts import install
from kvwal.client.failures import translate
from kvwal.errors import CommitUnknown, KvwalError, LogFailed

SERVER = "Exception from server: "
REFUSED = f"{SERVER}kvwal.node.NotWritten: kvwal.node.NotWritten: "
ATTEMPTS: dict[str, Exception | None] = {
    "offline": None,
    "loading": RetryableHazelcastError(f"{SERVER}com.hazelcast.X: Map jobs is still loading.\n at x"),
    "elsewhere": RetryableHazelcastError(
        f"{SERVER}com.hazelcast.X: NotRecovered: this member has not joined yet.\n at x"
    ),
    "full": UndefinedErrorCodeError(f"{REFUSED}StorageFull: the disk is full; nothing was written.\n at x", "X"),
    "lost": TargetDisconnectedError("closed"),
    "silent": OperationTimeoutError(f"{SERVER}com.hazelcast.X: no response\n at x"),
    "half": UndefinedErrorCodeError(f"{REFUSED}CommitUnknown: the disk failed.\n at x", "X"),
}
MAYBE = {"lost", "silent", "half"}
NOTHING = {"offline", "loading"}
"""Answers after which no partition has any of it: no member was there, or the one that was asked let nothing in."""
K = Data(b"\0\0\0\0\xff\xff\xff\xf5\0\0\0\1k")
REQUESTS = {
    "set": lambda: map_set_codec.encode_request("jobs", K, K, 1, -1),
    "delete": lambda: map_delete_codec.encode_request("jobs", K, 1),
    "put_if_absent": lambda: map_put_if_absent_codec.encode_request("jobs", K, K, 1, -1),
}


class Connections:
    """Connections of which each attempt of a call meets the next fault of a list; after the last, the time is over."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        self._faults = list(faults)
        self.made: list[str] = []
        config = SimpleNamespace(
            smart_routing=False, redo_operation=False, invocation_timeout=60, invocation_retry_pause=0,
            backup_ack_to_client_enabled=False, fail_on_indeterminate_operation_state=False, operation_backup_timeout=5,
        )  # fmt: skip
        client: Any = SimpleNamespace(lifecycle_service=SimpleNamespace(is_running=lambda: True))
        reactor = SimpleNamespace(add_timer=lambda pause, attempt: attempt())
        self.service: Any = InvocationService(client, config, reactor)
        install(self.service)
        self.service.init(None, self, None, None)

    def check_invocation_allowed(self) -> None:
        fault = self._faults.pop(0)
        self.made.append(fault)
        if not self._faults:
            self.call.timeout = 1.0
        self.error = ATTEMPTS[fault]
        if self.error is None:
            raise OSError("No connection found to cluster")

    def get_random_connection(self) -> Connections:
        return self

    def send_message(self, message: OutboundMessage) -> bool:
        self.service._notify_error(self.call, self.error)
        return True

    def ends(self, request: OutboundMessage) -> BaseException:
        """What the call ends with, in words of kvwal."""
        self.call = Invocation(request)
        self.service.invoke(self.call)
        with pytest.raises((HazelcastError, OSError)) as caught:
            self.call.future.result()
        return translate(caught.value, "jobs", writes=True)


@pytest.mark.parametrize("kind", REQUESTS)
def test_once_an_attempt_may_have_been_done_the_outcome_is_unknown(kind: str) -> None:
    for count in (1, 2, 3):
        for faults in itertools.product(ATTEMPTS, repeat=count):
            connections = Connections(faults)
            error = connections.ends(REQUESTS[kind]())
            told = f"{faults}, of which {connections.made} were met: {error!r}"
            assert isinstance(error, KvwalError), told
            assert isinstance(error, CommitUnknown) == bool(MAYBE & set(connections.made)), told
            if kind == "put_if_absent":
                assert not MAYBE & set(connections.made[:-1]), f"a condition is not decided twice: {told}"


def test_what_both_attempts_said_is_told() -> None:
    text = str(Connections(("lost", "offline")).ends(REQUESTS["set"]()))
    assert "closed" in text
    assert "No connection found" in text


def test_a_clear_is_of_unknown_outcome_once_a_member_had_it() -> None:
    """Each partition clears itself: one may refuse when others have done it, and the error is that of one partition."""
    for count in (1, 2, 3):
        for faults in itertools.product(ATTEMPTS, repeat=count):
            connections = Connections(faults)
            error = connections.ends(map_clear_codec.encode_request("jobs"))
            told = f"{faults}, of which {connections.made} were met: {error!r}"
            assert isinstance(error, KvwalError), told
            assert isinstance(error, CommitUnknown) == (not set(connections.made) <= NOTHING), told


def test_a_clear_says_why_a_member_refused_it() -> None:
    assert "the disk is full" in str(Connections(("full",)).ends(map_clear_codec.encode_request("jobs")))


@pytest.mark.parametrize("name", ["CorruptLog", "OSError", "PermissionError"])
def test_a_read_that_a_failing_disk_of_a_member_ended_is_no_write_of_unknown_outcome(name: str) -> None:
    sent = HazelcastError(f"Exception from server: kvwal.node.NotWritten: {name}: the disk is gone\n")
    read, written = (translate(sent, "jobs", writes=writes) for writes in (False, True))
    assert (type(read), type(written)) == (LogFailed, CommitUnknown)
    assert str(read) == str(written) == f"{name}: jobs: the disk is gone"
