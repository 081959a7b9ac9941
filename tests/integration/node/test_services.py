"""A client's write is taken only where a log keeps it: each service without one is refused, or named in the node's file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hazelcast.client import HazelcastClient
from hazelcast.errors import UnsupportedOperationError
from hazelcast.invocation import Invocation
from hazelcast.protocol.builtin import StringCodec
from hazelcast.protocol.client_message import REQUEST_HEADER_SIZE, OutboundMessage, create_initial_buffer
from hazelcast.protocol.codec import client_create_proxy_codec

from kvwal.errors import ConfigError
from kvwal.node.config import VolatileService, read_file
from tests.support.cluster.nodes import Node, needs_hazelcast, running

PYTHON: dict[str, Callable[[HazelcastClient], Any]] = {
    "queue": lambda client: client.get_queue("q"),
    "list": lambda client: client.get_list("l"),
    "set": lambda client: client.get_set("s"),
    "multi-map": lambda client: client.get_multi_map("m"),
    "replicated-map": lambda client: client.get_replicated_map("r"),
    "ringbuffer": lambda client: client.get_ringbuffer("b"),
    "reliable-topic": lambda client: client.get_reliable_topic("t"),
    "pn-counter": lambda client: client.get_pn_counter("p"),
    "executor": lambda client: client.get_executor("e"),
}
"""What hazelcast-python-client can ask for."""
SERVICES = {
    "cardinality-estimator": "hz:impl:cardinalityEstimatorService",
    "durable-executor": "hz:impl:durableExecutorService",
    "scheduled-executor": "hz:impl:scheduledExecutorService",
    "cache": "hz:impl:cacheService",
    "xa": "hz:impl:xaService",
}
"""What other clients can."""
MESSAGES = {
    "queue": 0x030100, "list": 0x050400, "set": 0x060400, "multi-map": 0x020100, "replicated-map": 0x0D0100,
    "ringbuffer": 0x170600, "pn-counter": 0x1D0200, "cardinality-estimator": 0x190100, "executor": 0x080500,
    "durable-executor": 0x180300, "scheduled-executor": 0x1A0200, "cache": 0x131300, "xa": 0x140500,
}  # fmt: skip
"""A write of each, by its number in Hazelcast's protocol: what a client sends that has the object already."""
IN_TRANSACTIONS = {"multi-map": 0x0F0100, "set": 0x100100, "list": 0x110100, "queue": 0x120100}
"""A write of each in a transaction."""
OTHERS = {
    "a map's configuration": 0x1B0C00,
    "a change of a map's configuration": 0x200400,
    "a script": 0x201100,
    "an atomic number": 0x090300,
    "a job": 0xFE0100,
    "a vector": 0x240100,
    "something that Hazelcast does not know": 0x7F0100,
    "a class": 0x000D00,
}

PUTS = (0x010100, 0x0E0600)
"""A map's, and a transaction's."""


def send(client: HazelcastClient, kind: int, name: str) -> None:
    """A request of any kind about an object, as any client may send it."""
    buffer = create_initial_buffer(REQUEST_HEADER_SIZE + 64, kind)
    StringCodec.encode(buffer, name, True)
    invocation = Invocation(OutboundMessage(buffer, False))
    client._invocation_service.invoke(invocation)
    invocation.future.result()


@needs_hazelcast
@pytest.mark.parametrize("service", PYTHON)
def test_what_has_no_log_is_refused(client: HazelcastClient, service: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f'no log in kvwal.*volatile = \\["{service}"\\]'):
        PYTHON[service](client)


@needs_hazelcast
@pytest.mark.parametrize("service", SERVICES)
def test_what_other_clients_could_make_is_refused(client: HazelcastClient, service: str) -> None:
    invocation = Invocation(client_create_proxy_codec.encode_request("x", SERVICES[service]))
    client._invocation_service.invoke(invocation)
    with pytest.raises(UnsupportedOperationError, match=f'volatile = \\["{service}"\\]'):
        invocation.future.result()


@needs_hazelcast
@pytest.mark.parametrize("service", MESSAGES)
def test_a_write_to_an_object_that_is_there_already_is_refused(client: HazelcastClient, service: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f'volatile = \\["{service}"\\]'):
        send(client, MESSAGES[service], "x")


@needs_hazelcast
@pytest.mark.parametrize("service", IN_TRANSACTIONS)
def test_a_write_in_a_transaction_is_refused(client: HazelcastClient, service: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f'volatile = \\["{service}"\\]'):
        send(client, IN_TRANSACTIONS[service], "x")


@needs_hazelcast
@pytest.mark.parametrize("what", OTHERS)
def test_what_would_change_the_members_is_refused(client: HazelcastClient, what: str) -> None:
    with pytest.raises(UnsupportedOperationError, match="A node of kvwal"):
        send(client, OTHERS[what], "jobs")


@needs_hazelcast
@pytest.mark.parametrize("name", ["__x", "__kvwal", "__kvwal.intents", "__sql.catalog"])
def test_the_members_own_maps_are_refused(client: HazelcastClient, name: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"{name} is the members' own"):
        client.get_map(name)
    for put in PUTS:
        with pytest.raises(UnsupportedOperationError, match="Nothing was read or written"):
            send(client, put, name)


@needs_hazelcast
def test_the_members_own_executors_run_their_own_tasks_only(client: HazelcastClient) -> None:
    executor = client.get_executor("kvwal")
    with pytest.raises(UnsupportedOperationError, match="kvwal's own tasks only"):
        executor.execute_on_key_owner("key", "no task").result()
    with pytest.raises(UnsupportedOperationError, match="members' own"):
        executor.shutdown().result()


@needs_hazelcast
def test_maps_and_what_has_nothing_to_lose_are_served(node: Node, client: HazelcastClient) -> None:
    for name in ("jobs", "tmp.scratch", "_x"):
        map_ = client.get_map(name).blocking()
        map_.put("key", 1)
        assert map_.get("key") == 1
        map_.destroy()
    client.get_topic("news").blocking().publish("word")
    client.get_flake_id_generator("ids").blocking().new_id()
    assert not [name for name in node.figures() if name.startswith("kvwal_volatile_service")]


@needs_hazelcast
def test_a_service_that_the_file_names_is_served_and_told(tmp_path: Path) -> None:
    config = 'volatile = ["queue", "reliable-topic"]\n'
    with running(tmp_path / "root", config=config) as node, node.client() as client:
        queue = client.get_queue("q").blocking()
        queue.put(1)
        assert queue.take() == 1
        client.get_reliable_topic("t").blocking().publish("word")
        with pytest.raises(UnsupportedOperationError, match='volatile = \\["ringbuffer"\\]'):
            client.get_ringbuffer("b")
        with pytest.raises(UnsupportedOperationError, match='volatile = \\["list"\\]'):
            client.get_list("l")
        figures = node.figures()
        assert {name for name in figures if name.startswith("kvwal_volatile_service")} == {
            'kvwal_volatile_service{service="queue"}',
            'kvwal_volatile_service{service="reliable-topic"}',
        }


@pytest.mark.parametrize(
    "text", ['volatile = ["queues"]', 'volatile = "queue"', 'volatile = ["queue", "queue"]', "volatile = true"]
)
def test_a_list_of_services_that_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="volatile"):
        read_file(path)


def test_every_service_without_a_log_is_tried() -> None:
    assert set(get_args(VolatileService)) == {*PYTHON, *SERVICES}
