"""Laws of the index from keys to blocks: none with the latest entry of a wanted key is missed, and few others are named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import Entry
from kvwal.log.files.format import Block, BlockKind
from kvwal.log.unlocked.segment_keys import Identity, SegmentKeys, identity_of, ordered

IDENTITIES = st.tuples(
    st.sampled_from(["", "a", "bytes", "str", "str\0", "str\0\0", "ÿ"]),
    st.sampled_from([b"", b"\0", b"\0\xff", b"a", b"a\0", b"b", b"\xff"]) | st.binary(max_size=3),
)
BLOCKS = st.lists(st.tuples(st.lists(IDENTITIES, min_size=1, max_size=6), st.booleans()), max_size=12)
START, LENGTH = 64, 100


def noted(blocks: list[tuple[list[Identity], bool]], *, seals: bool) -> SegmentKeys:
    """The keys of these blocks. A flag says whether they are settled after the block."""
    keys = SegmentKeys(7, START)
    for number, (identities, settles) in enumerate(blocks):
        entries = [Entry(key, key_class, b"", "bytes", False, 1) for key_class, key in identities]
        keys.add(block_at(number), entries, len(entries))
        if settles:
            keys.settle()
    keys.settle(seal=block_at(len(blocks)) if seals else None)
    return keys


def block_at(number: int) -> Block:
    begin = START + number * LENGTH
    return Block(begin, BlockKind.ENTRIES, 0, b"the payload", number, begin + LENGTH)


@given(BLOCKS, st.lists(st.tuples(IDENTITIES, IDENTITIES), min_size=1, max_size=3), st.booleans())
def test_each_block_of_a_range_is_named_and_few_others(
    blocks: list[tuple[list[Identity], bool]], ranges: list[tuple[Identity, Identity]], seals: bool
) -> None:
    keys = noted(blocks, seals=seals)
    last = {identity: number for number, (identities, _) in enumerate(blocks) for identity in identities}
    having = {number for identity, number in last.items() if any(low <= identity < high for low, high in ranges)}
    found = keys.blocks(ranges)
    numbers = [(place.offset - START) // LENGTH for place in found]
    assert numbers == sorted(set(numbers))
    assert having <= set(numbers)
    if seals:
        assert len(numbers) <= len(having) + len(ranges)
    entries = [len(identities) for identities, _ in blocks]
    assert [place.before for place in found] == [sum(entries[:number]) for number in numbers]
    assert (keys.end, keys.count) == (START + len(blocks) * LENGTH, sum(entries))


@given(BLOCKS, IDENTITIES, st.integers(1, 20))
def test_what_follows_an_identity_is_sorted_and_is_there(
    blocks: list[tuple[list[Identity], bool]], low: Identity, most: int
) -> None:
    found = [identity_of(each) for each in noted(blocks, seals=False).following(ordered(low), most)]
    after = sorted({identity for identities, _ in blocks for identity in identities if identity > low})
    assert found == after[:most]
    of_sealed = [identity_of(each) for each in noted(blocks, seals=True).following(ordered(low), most)]
    assert of_sealed == sorted(of_sealed)
    assert set(of_sealed) <= set(after)


@given(IDENTITIES, IDENTITIES)
def test_bytes_have_the_order_of_identities(one: Identity, other: Identity) -> None:
    assert (ordered(one) < ordered(other)) == (one < other)
    assert identity_of(ordered(one)) == one


def test_a_key_that_was_put_again_and_again_is_noted_once() -> None:
    keys = noted([([("str", b"hot")], True)] * 500, seals=False)
    assert [place.before for place in keys.blocks([(("str", b""), ("str", b"z"))])][-1] == 499
    assert len(keys.blocks([(("str", b""), ("str", b"z"))])) < 10
    assert len(noted([([("str", b"hot")], True)] * 500, seals=True).blocks([(("", b""), ("z", b""))])) == 1
    assert keys.following(ordered(("", b"")), 100) == [ordered(("str", b"hot"))]


def test_a_segment_that_was_filled_in_order_has_a_place_for_each_block() -> None:
    rows = [[("str", b"%06d" % (number * 1_000 + at)) for at in range(1_000)] for number in range(50)]
    keys = noted([(row, True) for row in rows], seals=True)
    assert len(keys.following(ordered(("", b"")), 1_000)) == 50
    assert len(keys.blocks([(("str", b"030500"), ("str", b"031500"))])) == 2
    assert keys.last is not None
    assert not keys.last.payload
