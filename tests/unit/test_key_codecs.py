"""Keys: they come back equal and of their type, equal ones are one key, and bytes compare as keys do."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvwal
from kvwal.codecs import Codecs, registry
from kvwal.errors import CodecError, ConfigError
from kvwal.key_codecs import ORDERED
from kvwal.key_text import TEXT_CLASSES, from_plain, plain
from kvwal.sql.text import encode_json, key_label, label

PAGE = Path(__file__).parents[2] / "docs/format/keys.md"
ZONES = st.timezones() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\x00"), max_size=5)
DAYS = st.dates()
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))
DECIMALS = st.decimals(allow_nan=False) | st.decimals(-100, 100, allow_nan=False, places=2)
PLAIN = (
    st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.none()
    | TEXTS
    | st.binary(max_size=4)
)
PARTS = PLAIN | DAYS | MOMENTS | DECIMALS | st.uuids()
TUPLES = st.recursive(
    st.lists(PARTS, max_size=4).map(tuple), lambda inner: st.lists(PARTS | inner, max_size=3).map(tuple)
)
KEYS = DAYS | MOMENTS | DECIMALS | st.uuids() | TUPLES


class Place(NamedTuple):
    region: str
    number: int


def types(key: Any) -> Any:
    return [types(part) for part in key] if type(key) is tuple else type(key)


@given(KEYS)
def test_a_key_comes_back_equal_and_of_its_type(key: Any) -> None:
    data, key_class = registry.encode_key(key)
    back = registry.decode_key(data, key_class)
    assert back == key
    assert types(back) == types(key)
    assert registry.encode_key(back) == (data, key_class)


@pytest.mark.parametrize(
    "keys",
    [
        st.integers(-(1 << 80), 1 << 80),
        st.integers(-300, 300),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.binary(),
        DAYS,
        MOMENTS,
        DECIMALS,
        st.decimals(-2, 2, allow_nan=False),
        st.uuids(),
        st.tuples(TEXTS, st.integers(-300, 300)),
        st.lists(TEXTS, max_size=4).map(tuple),
        st.lists(st.binary(max_size=3), max_size=4).map(tuple),
        st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
        st.tuples(MOMENTS, DECIMALS, st.lists(TEXTS, max_size=2).map(tuple)),
    ],
)
def test_bytes_of_keys_compare_as_the_keys_do(keys: Any) -> None:
    @given(st.lists(keys, min_size=2))
    def check(found: list[Any]) -> None:
        encode = registry.encode_key
        for smaller, greater in pairwise(sorted(found)):
            assert encode(smaller)[0] <= encode(greater)[0]
            assert (encode(smaller) == encode(greater)) == (smaller == greater)

    check()


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES))
def test_a_moment_is_one_key_in_any_zone(moment: datetime) -> None:
    try:
        data = registry.encode_key(moment)
    except CodecError:
        assert moment != moment.astimezone(UTC), "only what Python itself finds unequal is refused"
        return
    assert registry.encode_key(moment.astimezone(UTC)) == data
    assert registry.decode_key(*data) == moment


def test_a_decimal_is_one_key_however_it_is_written_and_no_context_rounds_it() -> None:
    same = [Decimal("1.0"), Decimal("1.00"), Decimal(1), Decimal("10E-1")]
    assert len({registry.encode_key(number) for number in same}) == 1
    assert registry.encode_key(Decimal("-0.0")) == registry.encode_key(Decimal(0))
    with localcontext(prec=2):
        long = Decimal("123456789.123456789")
        assert registry.decode_key(*registry.encode_key(long)) == long
    assert str(registry.decode_key(*registry.encode_key(Decimal(100)))) == "100"


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (datetime(2026, 1, 31), "has no time zone"),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
            "an hour that its zone has twice or not at all",
        ),
        (
            datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
            "an hour that its zone has twice or not at all",
        ),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), "cannot encode"),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "NaN"),
        (Place("eu", 7), "a Place cannot be a key"),
        (("eu", Place("eu", 7)), "cannot be a part of a tuple"),
        (("eu", {"a": 1}), "cannot be a part of a tuple"),
        (("eu", datetime(2026, 1, 31)), "has no time zone"),
        (("eu", float("nan")), "NaN"),
        (("\ud800",), "cannot encode"),
        (timedelta(1), "a timedelta cannot be a key"),
    ],
    ids=repr,
)
def test_a_key_that_cannot_be_one_is_refused(key: Any, says: str) -> None:
    with pytest.raises(CodecError, match=says):
        registry.encode_key(key)


def nested(levels: int) -> tuple[Any, ...]:
    key: tuple[Any, ...] = ()
    for _ in range(levels - 1):
        key = (key,)
    return key


def test_a_tuple_has_sixteen_levels_at_most() -> None:
    assert registry.decode_key(*registry.encode_key(nested(16))) == nested(16)
    with pytest.raises(CodecError, match="nested too deeply"):
        registry.encode_key(nested(17))


@pytest.mark.parametrize("codec", ORDERED, ids=lambda codec: codec.name)
def test_these_types_are_no_values(codec: Any) -> None:
    with pytest.raises(CodecError, match="no codec for"):
        registry.encode_value(codec.decode(registry.encode_key(EXAMPLES[codec.name])[0]))


@given(st.sampled_from(TEXT_CLASSES), st.binary(max_size=12))
def test_bytes_that_are_no_key_are_refused_by_their_class(key_class: str, data: bytes) -> None:
    try:
        key = registry.decode_key(data, key_class)
    except CodecError:
        return
    again, found = registry.encode_key(key)
    assert found == key_class
    assert len(again) <= len(data), "an int may stand in more bytes than it needs; nothing else is written in two ways"


@given(KEYS)
def test_a_key_comes_back_from_its_text(key: Any) -> None:
    data, key_class = registry.encode_key(key)
    text = key_label(data, key_class)
    assert registry.encode_key(from_plain(text, key_class)) == (data, key_class)
    line = encode_json({"key": plain(key)})
    assert registry.encode_key(from_plain(msgspec.json.decode(line)["key"], key_class)) == (data, key_class)


def test_text_of_keys_is_what_people_write() -> None:
    shown_as = {
        datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1))): "2026-01-31T11:00:00Z",
        datetime(2026, 1, 31, 12, 0, 0, 5, UTC): "2026-01-31T12:00:00.000005Z",
        date(2026, 1, 31): "2026-01-31",
        Decimal("12.50"): "12.5",
        UUID(int=5): "00000000-0000-0000-0000-000000000005",
        ("job-1", 7, None): '["job-1",7,null]',
        (1.0, True, ("a", b"\xff")): '[1.0,true,["a",{"bytes":"/w=="}]]',
        (date(2026, 1, 31), "2026-01-31"): '[{"date":"2026-01-31"},"2026-01-31"]',
        (1 << 70, float("-inf")): '[{"int":"1180591620717411303424"},{"float":"-Infinity"}]',
    }
    assert {key: key_label(*registry.encode_key(key)) for key in shown_as} == shown_as


def test_values_of_a_program_may_have_these_names() -> None:
    codecs = Codecs()
    codecs.register(
        Decimal, "decimal", encode=lambda number: str(number).encode(), decode=lambda data: Decimal(data.decode())
    )
    assert codecs.decode(*codecs.encode_value(Decimal("1.00"))).as_tuple() == Decimal("1.00").as_tuple()
    assert codecs.encode_key(Decimal("1.00")) == registry.encode_key(Decimal(1))
    assert codecs.decode_key(*codecs.encode_key(Decimal(1))) == Decimal(1)
    with pytest.raises(ConfigError, match="is taken"):
        codecs.register(Place, "decimal", encode=lambda place: b"", decode=bytes)
    with pytest.raises(CodecError, match="'decimal' is not registered here"):
        registry.decode(b"1.00", "decimal")
    with pytest.raises(CodecError, match="'uuid' is not registered here"):
        registry.decode(UUID(int=5).bytes_le, "uuid")
    assert label(b"1.00", "decimal") == "1.0", "a program that does not know it shows the JSON that it is"
    assert label(UUID(int=255 << 120).bytes_le, "uuid") == "0x" + UUID(int=255 << 120).bytes_le.hex()


def test_keys_of_a_program_may_have_these_names() -> None:
    codecs = Codecs()
    codecs.register(Place, "tuple", encode=lambda place: place.region.encode(), decode=bytes.decode, keys=True)
    assert codecs.decode_key(*codecs.encode_key(Place("eu", 7))) == "eu"
    with pytest.raises(CodecError, match="cannot be a key"):
        codecs.encode_key(("eu", 7))
    assert codecs.encode_key(date(2026, 1, 31)) == registry.encode_key(date(2026, 1, 31))


def test_a_type_registered_under_another_name_is_that_key_and_old_keys_stay_readable() -> None:
    codecs = Codecs()
    old = codecs.encode_key(UUID(int=5))
    codecs.register(
        UUID, "run", encode=lambda run: run.hex.encode(), decode=lambda data: UUID(data.decode()), keys=True
    )
    assert codecs.encode_key(UUID(int=5)) == (b"0" * 31 + b"5", "run")
    assert codecs.decode_key(*old) == UUID(int=5)


def test_a_tuple_is_the_prefix_of_the_tuples_that_begin_with_its_parts(tmp_path: Path) -> None:
    keys = [("a",), ("a", 1), ("a", 2, "x"), ("a", None), ("a\x00", 1), ("a\x00b",), ("b", 1), (), "a", 7]
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        jobs.put_many((key, "x") for key in keys)
        assert [key for key, _ in jobs.scan(("a",))] == [("a",), ("a", None), ("a", 1), ("a", 2, "x")]
        assert [key for key, _ in jobs.scan(("a", 2))] == [("a", 2, "x")]
        assert [key for key, _ in jobs.scan(())] == sorted([key for key in keys if type(key) is tuple], key=repr_order)
        assert [key for key, _ in jobs.range(("a", 2), ("b", 1))] == [("a", 2, "x"), ("a\x00", 1), ("a\x00b",)]
        for start, end in ((("a", 1), ("a", 1.5)), (("a", 1), ("a", "b")), ((1,), (2.0,))):
            with pytest.raises(CodecError, match="has bounds with parts of two types"):
                jobs.range(start, end)
        assert list(jobs.range(("a", 2), ("b", "x")))
        with pytest.raises(CodecError, match="a prefix is str, bytes or a tuple, not int"):
            list(jobs.scan(7))  # type: ignore[arg-type]


def repr_order(key: tuple[Any, ...]) -> tuple[str, int]:
    return str(key[0]) if key else "", [None, 1, 2].index(key[1]) if len(key) > 1 else -1


EXAMPLES: dict[str, Any] = {
    "none": None,
    "bool": True,
    "int": -300,
    "float": 1.5,
    "str": "job-1",
    "bytes": b"\x00\xff",
    "decimal": Decimal("-12.5"),
    "date": date(2026, 1, 31),
    "datetime": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "uuid": UUID("123e4567-e89b-12d3-a456-426614174000"),
    "tuple": ("job-1", 7, None, (date(2026, 1, 31),)),
}


def test_the_page_of_keys_has_each_class_its_number_and_its_bytes() -> None:
    page = PAGE.read_text()
    found = dict(re.findall(r"^\| `(\w+)` \| `.+` \| `([0-9a-f]*)` \|$", page, re.MULTILINE))
    assert found == {name: registry.encode_key(key)[0].hex() for name, key in EXAMPLES.items()}
    numbers = {name: registry.encode_key((key,))[0][0] for name, key in EXAMPLES.items()}
    assert {name: int(number) for name, number in re.findall(r"`(\w+)` ([0-9]+)[,.]", page)} == numbers


@pytest.mark.parametrize(
    ("content", "key_class"),
    [
        ("31.1.2026", "date"),
        (20260131, "date"),
        ("2026-02-30", "datetime"),
        (1.5, "decimal"),
        ("1,5", "decimal"),
        (5, "uuid"),
        ("5", "uuid"),
        ('{"a": 1}', "tuple"),
        ("('a', 1)", "tuple"),
        ({"date": "2026-01-31"}, "tuple"),
        ('[{"day": "2026-01-31"}]', "tuple"),
        ('[{"date": 5}]', "tuple"),
        ('[{"date": "2026-01-31", "int": "1"}]', "tuple"),
        ("[{}]", "tuple"),
        ('[{"bytes": "?"}]', "tuple"),
        ("1_000", "decimal"),
        (" 1", "decimal"),
        ("\uff11", "decimal"),
        ("NaN", "decimal"),
        ('[{"int": "1_0"}]', "tuple"),
        ("2026-01-31T12:00:00.0000001", "datetime"),
    ],
)
def test_text_that_is_no_key_is_refused_with_an_example(content: Any, key_class: str) -> None:
    with pytest.raises(CodecError, match=rf"is no {key_class}\. Write") as refused:
        from_plain(content, key_class)
    assert len(str(refused.value)) < 250
