"""OpenLineage's events: checked against its schema, without secrets, and what they tell of a run in any order."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvwal
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import (
    MAX_BODY,
    NotGzip,
    TooLong,
    checked,
    checked_batch,
    gunzipped,
    parsed,
    unpacked,
)
from kvwal.lineage.openlineage.runs import merged, record_of
from kvwal.lineage.openlineage.schema import InvalidEvent
from tests.support.lineage.events import RUN, event


def test_an_event_of_the_schema_is_taken() -> None:
    assert checked(event()).told.run == RUN


INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"run": {"runId": "7"}}, "$.run.runId", "it is no UUID"),
    ({"run": {}}, "$.run", "the field 'runId' is missing"),
    ({"eventTime": "yesterday"}, "$.eventTime", "it is no date and time of RFC 3339"),
    ({"eventTime": "2026-01-01"}, "$.eventTime", "it is no date and time of RFC 3339"),
    ({"eventTime": 7}, "$.eventTime", "it must be a string, and is a number"),
    ({"producer": "no uri"}, "$.producer", "it is no URI"),
    ({"eventType": "DONE"}, "$.eventType", "it must be one of START, RUNNING, COMPLETE, ABORT, FAIL, OTHER"),
    ({"inputs": [{"namespace": "a"}]}, "$.inputs[0]", "the field 'name' is missing"),
    ({"inputs": {}}, "$.inputs", "it must be an array, and is an object"),
    ({"job": {"namespace": "n", "name": "j", "facets": {"x": {"a": 1}}}}, "$.job.facets.x", "the field '_producer' is missing"),
    ({"run": None, "job": None}, "$.run", "it must be an object, and is null"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "path", "reason"), INVALID)
def test_an_event_that_is_not_valid_is_refused_with_its_path_and_reason(
    changes: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(InvalidEvent) as raised:
        checked(event() | changes)
    assert (raised.value.path, raised.value.reason) == (path, reason)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a": NaN}', b'"\xed\xa0\x80"'])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidEvent, match="no JSON"):
        parsed(body)


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="nested too deeply"):
        checked(parsed(json.dumps(event())[:-1].encode() + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"))
    deep = json.dumps(event())[:-1].encode() + b', "x": ' + b"[" * 900 + b"]" * 900 + b"}"
    with suppress(InvalidEvent):  # Python's stack may be long enough: then it is taken
        assert checked(parsed(deep)).told.run == RUN


def test_an_event_without_a_subject_is_refused() -> None:
    told = {key: value for key, value in event().items() if key not in ("run", "job")}
    with pytest.raises(InvalidEvent, match="'run', 'job' or 'dataset'"):
        checked(told)
    with pytest.raises(InvalidEvent, match="an event is an object, and this is a string"):
        checked("event")


def test_an_invalid_event_of_a_batch_is_named_by_its_place() -> None:
    with pytest.raises(InvalidEvent) as raised:
        checked_batch([event(), event(), event() | {"run": {}}])
    assert raised.value.path == "$[2].run"


def test_a_reason_never_shows_the_value() -> None:
    with pytest.raises(InvalidEvent) as raised:
        checked(event() | {"producer": "hunter2 is my password"})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "time", ["2026-01-01T00:00:00.123456789Z", "2026-01-01T02:00:00.123+02:00", "2026-01-01T00:00:00.123"]
)
def test_times_are_taken_as_clients_write_them(time: str) -> None:
    assert record_of(event() | {"eventTime": time}).last_event == 1_767_225_600_123


SECRETS = [
    {"password": "hunter2"},
    {"properties": {"spark.hadoop.fs.s3a.secret.key": "hunter2"}},
    {"environmentVariables": [{"name": "DB_PASSWORD", "value": "hunter2"}]},
    {"uri": "jdbc:postgresql://ada:hunter2@db:5432/shop"},
    {"query": "CREATE USER ada IDENTIFIED BY 'hunter2'"},
    {"deep": [{"deeper": {"api_key": "hunter2"}}]},
]


@pytest.mark.parametrize("facet", SECRETS)
def test_a_facet_is_kept_without_its_secrets(facet: dict[str, Any]) -> None:
    base = {"_producer": "urn:x", "_schemaURL": "urn:x"}
    run = {"runId": RUN, "facets": {"unknown_to_us": {**base, **facet, "kept": "as it is"}}}
    stored = unpacked(checked(event(run=run)).value)
    assert "hunter2" not in json.dumps(stored)
    assert stored["run"]["facets"]["unknown_to_us"]["kept"] == "as it is"


def test_names_of_data_sets_with_words_of_secrets_stay() -> None:
    told = event(inputs=[{"namespace": "postgres://db:5432", "name": "shop.public.access_tokens"}])
    stored = unpacked(checked(told).value)
    assert stored["inputs"] == told["inputs"]
    secret = event(inputs=[{"namespace": "postgres://ada:hunter2@db:5432", "name": "t"}])
    assert "hunter2" not in json.dumps(unpacked(checked(secret).value))
    assert "hunter2" not in checked(secret).told.reads[0].text


def test_a_large_event_is_stored_packed_and_whole() -> None:
    large = event(
        run={"runId": RUN, "facets": {"plan": {"_producer": "urn:x", "_schemaURL": "urn:x", "text": "x " * 500_000}}}
    )
    found = checked(large)
    assert isinstance(found.value, bytes)
    assert found.size < 10_000
    assert unpacked(found.value) == large


def test_gzip_is_unpacked_up_to_a_limit() -> None:
    assert gunzipped([gzip.compress(b"{}")]) == b"{}"
    with pytest.raises(TooLong):
        gunzipped([gzip.compress(bytes(MAX_BODY + 1))])
    for body in (b"{}", gzip.compress(b"{}")[:-3], b""):
        with pytest.raises(NotGzip):
            gunzipped([body])


A_DAY = [
    event("START", "2026-01-01T00:00:00Z", inputs=["/a"]),
    event("RUNNING", "2026-01-01T00:00:05Z", inputs=["/b"], outputs=["/c"], name="job renamed"),
    event("OTHER", "2026-01-01T00:00:09Z"),
    event("COMPLETE", "2025-12-31T00:00:00Z", outputs=["/d"]),
]


def test_events_of_a_run_tell_the_same_in_any_order_and_twice() -> None:
    whole = set()
    for order in permutations(A_DAY):
        told = record_of(order[0])
        for each in (*order[1:], order[0], order[2]):
            told = merged(told, record_of(each))
        whole.add(json.dumps(kvwal_builtins(told)))
    assert len(whole) == 1
    assert told.state == "COMPLETE"
    assert [name.text for name in told.reads] == ["file:///a", "file:///b"]
    assert [name.text for name in told.writes] == ["file:///c", "file:///d"]


def kvwal_builtins(told: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(told)


states = st.sampled_from(["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"])
times = st.integers(0, 3).map(lambda second: f"2026-01-01T00:00:0{second}Z")
paths = st.lists(st.sampled_from(["/a", "/b", "/c"]), max_size=2)
events = st.builds(
    lambda state, time, inputs, outputs, name: event(state, time, inputs=inputs, outputs=outputs, name=name),
    states, times, paths, paths, st.sampled_from(["j", "k"]),
)  # fmt: skip


@given(st.lists(events, min_size=3, max_size=3))
def test_how_events_are_grouped_makes_no_difference(told: list[dict[str, Any]]) -> None:
    one, two, three = map(record_of, told)
    assert merged(merged(one, two), three) == merged(one, merged(two, three)) == merged(merged(three, one), two)
    assert merged(one, one) == one


def test_a_run_that_failed_ends_so_also_where_a_clock_is_ahead() -> None:
    late_start = record_of(event("START", "2026-01-02T00:00:00Z"))
    assert merged(record_of(event("FAIL", "2026-01-01T00:00:00Z")), late_start).state == "FAIL"


def test_an_event_is_stored_once(tmp_path: Any) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        events = store.map("openlineage")
        target = EventStore(events, "local")
        batch = checked_batch(A_DAY)
        assert target.put(batch) == (4, 0)
        before = dict(events)
        assert target.put([*batch, batch[0]]) == (0, 5)
        assert dict(events) == before
        assert len([key for key in before if key.startswith("event/")]) == 4
        assert before[f"run/{RUN}/local"]["state"] == "COMPLETE"


def test_a_job_has_the_data_sets_of_its_latest_event(tmp_path: Any) -> None:
    def of_job(time: str, path: str) -> dict[str, Any]:
        told = event(None, time, inputs=[path])
        del told["run"]
        return told

    with kvwal.open(tmp_path, archive=None) as store:
        events = store.map("openlineage")
        EventStore(events, "local").put(checked_batch([of_job("2026-01-02T00:00:00Z", "/new")]))
        EventStore(events, "local").put(checked_batch([of_job("2026-01-01T00:00:00Z", "/old")]))
        (told,) = [value for key, value in events.items() if key.startswith("job/")]
        assert told["reads"] == [["file", "/new", ""]]
