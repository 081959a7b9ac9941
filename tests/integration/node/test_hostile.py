"""What a client sends to be run, or to become an object, takes no thread of a node for long, and no class that is not allowed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hazelcast.aggregator import count
from hazelcast.client import HazelcastClient
from hazelcast.errors import HazelcastError
from hazelcast.invocation import Invocation
from hazelcast.predicate import and_, equal, ilike, in_, like, not_, not_equal, or_, paging, regex, sql
from hazelcast.projection import single_attribute
from hazelcast.protocol.client_message import OutboundMessage
from hazelcast.protocol.codec import map_get_codec, map_key_set_with_predicate_codec, map_set_codec
from hazelcast.serialization.data import Data

from kvwal.client.member_tasks import _ConditionalTask, _TransactionTask, transactions_executor
from kvwal.codecs import registry
from kvwal.entry import Entry
from tests.support.cluster.nodes import Node, needs_hazelcast
from tests.support.polling import until

pytestmark = needs_hazelcast
JAVA_OBJECT = -100
"""The number by which Hazelcast knows what Java serialized."""
LONG = "a" * 40 + "!"
ENDLESS = regex("this", ".*a" * 15 + "b")
"""Billions of steps on `LONG`."""


def java_object(name: str) -> Data:
    """An object of a class as Java serializes it, without fields."""
    described = b"\xac\xed\x00\x05sr" + struct.pack(">H", len(name)) + name.encode() + bytes(8) + b"\x02\x00\x00xp"
    return Data(bytearray(struct.pack(">ii", 0, JAVA_OBJECT) + described))


def ask(client: HazelcastClient, predicate: Data) -> Any:
    """The keys of map "jobs" for which a predicate holds that is these bytes."""
    return send(client, map_key_set_with_predicate_codec.encode_request("jobs", predicate))


def send(
    client: HazelcastClient,
    request: OutboundMessage,
    decode: Callable[[Any], Any] = lambda message: message,
    partition: int = -1,
) -> Any:
    """The answer to a request."""
    invocation = Invocation(request, partition_id=partition, response_handler=decode)
    client._invocation_service.invoke(invocation)
    return invocation.future.result()


@pytest.mark.parametrize(
    "name",
    [
        "java.util.HashSet",
        "java.util.HashMap",
        "java.util.PriorityQueue",
        "java.net.URL",
        "java.lang.invoke.SerializedLambda",
        "javax.management.BadAttributeValueExpException",
        "com.hazelcast.config.Config",
        "kvwal.node.ReadyGate",
        "[[Ljava.lang.Object;",
    ],
)
def test_no_java_object_is_made_of_what_a_client_sends(client: HazelcastClient, name: str) -> None:
    with pytest.raises(HazelcastError, match=r"Resolving class .* is not allowed"):
        ask(client, java_object(name))


def test_an_error_is_what_members_tell_each_other_and_no_predicate(client: HazelcastClient) -> None:
    with pytest.raises(HazelcastError) as refused:
        ask(client, java_object("java.lang.IllegalStateException"))
    assert "not allowed" not in str(refused.value)


@pytest.mark.parametrize(
    "predicate", [regex("this", "a.*"), like("this", "a%!"), ilike("this", "A%"), sql("this LIKE 'a%'")]
)
def test_ordinary_patterns_match(client: HazelcastClient, predicate: Any) -> None:
    words: Any = client.get_map("words").blocking()
    words.put_all({1: LONG, 2: "b", 3: "a!"})
    assert sorted(words.key_set(predicate)) == [1, 3]


def test_like_knows_its_wildcards_and_what_is_escaped(client: HazelcastClient) -> None:
    signs: Any = client.get_map("signs").blocking()
    signs.put_all({1: "50%", 2: "50 c", 3: "50", 4: "x_y", 5: "xzy", 6: "line\nbreak", 7: "a.c", 8: "abc"})
    found = {
        text: sorted(signs.key_set(like("this", text)))
        for text in ("50\\%", "50%", "x\\_y", "x_y", "line%break", "a.c")
    }
    assert found == {"50\\%": [1], "50%": [1, 2, 3], "x\\_y": [4], "x_y": [4, 5], "line%break": [6], "a.c": [7]}


@pytest.mark.long
def test_a_pattern_that_would_take_for_ever_is_ended_and_readiness_says_so(node: Node, client: HazelcastClient) -> None:
    """More of them than there are threads."""
    words: Any = client.get_map("endless").blocking()
    words.put_all(dict.fromkeys(range(300), LONG))
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(words.key_set, ENDLESS) for _ in range(8)]
        said = until(lambda: found if "queries" in (found := node.ready()) else None)
        assert not said["ready"]
        for future in asked:
            with pytest.raises(HazelcastError, match="pattern took more than 5 s"):
                future.result()
    until(lambda: node.ready()["ready"] or None)
    assert words.size() == 300


def test_a_pattern_that_nests_too_deep_is_refused(client: HazelcastClient) -> None:
    deep: Any = client.get_map("deep").blocking()
    deep.put(1, "ab" * 100_000)
    with pytest.raises(HazelcastError, match="nests too deep"):
        deep.key_set(regex("this", "(a|b)*"))


@pytest.mark.long
def test_a_like_of_many_wildcards_is_ended(client: HazelcastClient) -> None:
    long: Any = client.get_map("long").blocking()
    long.put(1, "a" * 10_000)
    with pytest.raises(HazelcastError, match="pattern took more than 5 s"):
        long.key_set(like("this", "%a" * 30 + "%b"))


@pytest.mark.long
def test_many_conditions_that_would_take_hours_are_ended(client: HazelcastClient) -> None:
    """Each entry is compared with all of them. Some of them stand inside of others."""
    many: Any = client.get_map("many-conditions").blocking()
    many.put_all(dict.fromkeys(range(40000), "value"))
    group = or_(equal("this", "other"), not_(and_(*[not_equal("this", f"b-{number}") for number in range(10)])))
    with pytest.raises(HazelcastError, match="3992 conditions took more than 5 s"):
        many.key_set(or_(*[group] * 2, *[like("this", f"{number}_") for number in range(3970)]))
    assert many.size() == 40_000


@pytest.mark.parametrize("indexed", [False, True])
def test_conditions_hold_together_or_one_of_them_does(client: HazelcastClient, indexed: bool) -> None:
    words: Any = client.get_map(f"conditions-{indexed}").blocking()
    if indexed:
        words.add_index(attributes=["this"])
    words.put_all(dict.fromkeys("abc") | {letter: letter for letter in "abcdef"})
    few = [equal("this", letter) for letter in "ace"]
    assert sorted(words.key_set(or_(*few))) == ["a", "c", "e"]
    assert sorted(words.key_set(not_(or_(*few)))) == ["b", "d", "f"]
    assert words.key_set(and_(*few)) == []
    assert sorted(words.key_set(and_(in_("this", "a", "b", "c"), not_equal("this", "b")))) == ["a", "c"]
    assert sorted(words.key_set(sql("this > 'd' OR (this < 'c' AND NOT this = 'a')"))) == ["b", "e", "f"]
    assert sorted(words.key_set(or_(*[equal("this", str(number)) for number in range(2000)], like("this", "f%")))) == [
        "f"
    ]


LARGE = in_("this", *[f"{number:0100}" for number in range(3000)])
"""As many bytes as could be a hundred thousand conditions."""


@pytest.mark.parametrize(
    "use",
    [
        lambda jobs: jobs.key_set(LARGE),
        lambda jobs: jobs.values(LARGE),
        lambda jobs: jobs.entry_set(LARGE),
        lambda jobs: jobs.key_set(paging(LARGE, 10)),
        lambda jobs: jobs.values(paging(LARGE, 10)),
        lambda jobs: jobs.entry_set(paging(LARGE, 10)),
        lambda jobs: jobs.remove_all(LARGE),
        lambda jobs: jobs.aggregate(count(), LARGE),
        lambda jobs: jobs.project(single_attribute("this"), LARGE),
        lambda jobs: jobs.add_entry_listener(predicate=LARGE, added_func=print),
        lambda jobs: jobs.add_entry_listener(predicate=LARGE, key=1, added_func=print),
    ],
    ids=["keys", "values", "entries", "paged keys", "paged values", "paged entries", "remove_all", "aggregate", "project",
         "listener", "listener of a key"],
)  # fmt: skip
def test_a_predicate_of_many_bytes_is_refused_before_an_object_is_made_of_it(
    client: HazelcastClient, use: Callable[[Any], Any]
) -> None:
    jobs: Any = client.get_map("large-predicates").blocking()
    jobs.put(1, "1")
    # The client keeps to itself why a listener was refused.
    said = r"TooLarge: the predicate has .* more than 256 KiB; nothing was read|Listener cannot be added"
    with pytest.raises(HazelcastError, match=said):
        use(jobs)


def test_a_value_that_java_serialized_is_kept_as_it_is(client: HazelcastClient) -> None:
    """A client of Java may have such values: to a node they are bytes, which a predicate may not look into."""
    service: Any = client._context.serialization_service
    key, value = service.to_data("java"), java_object("java.util.HashSet")
    partition = client.partition_service.get_partition_id("java")
    send(client, map_set_codec.encode_request("java", key, value, 0, -1), partition=partition)
    found = send(client, map_get_codec.encode_request("java", key, 0), map_get_codec.decode_response, partition)
    assert found.buffer == value.buffer
    with pytest.raises(HazelcastError, match=r"Resolving class java.util.HashSet is not allowed"):
        client.get_map("java").blocking().key_set(sql("this = 5"))


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        ("0" * 32, "__kvwal.guards"),
        ("0" * 32, "__kvwal.intents"),
        ("0" * 32, "__sql.catalog"),
        (f"{'0' * 32} gone", "jobs"),
        ("1 gone __kvwal.guards", "jobs"),
        ("", "jobs"),
    ],
)
def test_no_transaction_of_a_client_changes_the_members_own_maps(
    client: HazelcastClient, identity: str, name: str
) -> None:
    changes = registry.encode_puts([("key", "value")])
    conditions = [Entry(*registry.encode_key("key"), b"", "", True, 0)]
    executor = transactions_executor(client)
    for task in (
        _TransactionTask(name, identity, changes, 10.0),
        _ConditionalTask(name, identity, changes, conditions, 10.0),
    ):
        with pytest.raises(HazelcastError, match="no client may send a transaction with this id of this map"):
            executor.execute_on_key_owner(identity, task).result()
