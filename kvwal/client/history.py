"""History requests: a map's past, asked of any member. Each member can read the archive of all logs."""

from __future__ import annotations

from typing import Any

from hazelcast.client import HazelcastClient
from hazelcast.future import Future as HazelcastFuture
from hazelcast.serialization.api import IdentifiedDataSerializable, ObjectDataOutput

from kvwal.client.transactions import FACTORY
from kvwal.cluster.requests import Question, encode
from kvwal.ports.clock import SYSTEM

_QUESTION = 10
_EXECUTOR = "kvwal.questions"
"""An executor apart from that of transactions, because a history request keeps its thread for seconds."""


class _HistoryTask(IdentifiedDataSerializable):
    """Task that a member runs: see HistoryRequests.java."""

    def __init__(self, question: Question) -> None:
        self._encoded = encode(question)

    def get_factory_id(self) -> int:
        return FACTORY

    def get_class_id(self) -> int:
        return _QUESTION

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        object_data_output.write_byte_array(bytearray(self._encoded))

    def read_data(self, object_data_input: Any) -> None:
        raise NotImplementedError


def ask(client: HazelcastClient, question: Question) -> HazelcastFuture[Any]:
    """Send a history request to a random member. The answer is a block of entries, as bytes."""
    return client.get_executor(_EXECUTOR).execute_on_key_owner(f"{SYSTEM.random_bits(64):x}", _HistoryTask(question))
