"""The past of a map, asked of whichever member comes first: each of them can read all logs' archive."""

from __future__ import annotations

from typing import Any

from hazelcast.client import HazelcastClient
from hazelcast.future import Future as HazelcastFuture
from hazelcast.serialization.api import IdentifiedDataSerializable, ObjectDataOutput

from kvwal.client.intents import FACTORY
from kvwal.cluster.requests import Question, encode
from kvwal.ports.clock import SYSTEM

_QUESTION = 10
_EXECUTOR = "kvwal.questions"
"""Not that of transactions: a question has its thread for seconds."""


class _Ask(IdentifiedDataSerializable):
    """See HistoryRequests.java."""

    def __init__(self, question: Question) -> None:
        self._text = encode(question)

    def get_factory_id(self) -> int:
        return FACTORY

    def get_class_id(self) -> int:
        return _QUESTION

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        object_data_output.write_byte_array(bytearray(self._text))

    def read_data(self, object_data_input: Any) -> None:
        raise NotImplementedError


def ask(client: HazelcastClient, question: Question) -> HazelcastFuture[Any]:
    """Answered with a block of entries, as bytes. Which member answers is left to chance."""
    return client.get_executor(_EXECUTOR).execute_on_key_owner(f"{SYSTEM.random_bits(64):x}", _Ask(question))
