"""The workloads: each has its own name, and the mixes and distributions are YCSB's."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from benchmarks.peers import workloads
from benchmarks.peers.distributions import Zipfian, fnv_hash
from benchmarks.peers.mixes import Mixer, key_name

DRAWS = 20_000


def test_every_workload_has_its_own_name() -> None:
    loads = [
        *(workloads.producers(count, style) for count in workloads.PRODUCERS for style in ("threads", "tasks")),
        *(workloads.transactions(entries) for entries in workloads.BATCHES),
        *(workloads.values(size) for size in workloads.VALUES),
        workloads.SEED_SMALL,
        workloads.SEED_LARGE,
    ]
    assert len({load.name for load in loads}) == len(loads)


def test_the_first_workloads_are_those_of_the_project() -> None:
    small, large = workloads.SEED_SMALL, workloads.SEED_LARGE
    assert (small.producers, small.value, small.memory) == (2, 100, 512)
    assert (large.producers, large.value, large.memory) == (2, 1 << 20, 5 * 1_024)


@pytest.mark.parametrize(
    ("size", "name"), [(10, "10 B"), (1_000, "1 kB"), (100_000, "100 kB"), (1 << 20, "1 MiB"), (4 << 20, "4 MiB")]
)
def test_a_size_is_said_as_a_person_says_it(size: int, name: str) -> None:
    assert workloads.size_name(size) == name


def test_the_mixes_are_those_of_ycsb() -> None:
    mixes = {mix.name[0]: (mix.parts, mix.keys) for mix in workloads.YCSB}
    assert mixes == {
        "A": ({"read": 0.5, "update": 0.5}, "zipfian"),
        "B": ({"read": 0.95, "update": 0.05}, "zipfian"),
        "C": ({"read": 1.0}, "zipfian"),
        "D": ({"read": 0.95, "insert": 0.05}, "latest"),
        "E": ({"scan": 0.95, "insert": 0.05}, "zipfian"),
        "F": ({"read": 0.5, "read_modify_write": 0.5}, "zipfian"),
    }


@pytest.mark.parametrize("items", [1, 2, 3, 1_000])
def test_every_rank_is_one_of_the_items(items: int) -> None:
    chance, zipfian = Random(1), Zipfian(items)
    ranks = [zipfian.rank(chance) for _ in range(2_000)]
    assert min(ranks) == 0
    assert max(ranks) < items


def test_ranks_are_drawn_as_often_as_zipf_says() -> None:
    chance, items = Random(2), 1_000
    zipfian = Zipfian(items)
    counts = Counter(zipfian.rank(chance) for _ in range(DRAWS))
    zeta = sum(1 / (rank + 1) ** 0.99 for rank in range(items))
    for rank in (0, 1):
        assert counts[rank] / DRAWS == pytest.approx(1 / (rank + 1) ** 0.99 / zeta, rel=0.1)
    first_ten = sum(1 / (rank + 1) ** 0.99 for rank in range(10)) / zeta
    assert sum(counts[rank] for rank in range(10)) / DRAWS == pytest.approx(first_ten, rel=0.1)


def test_popular_keys_are_scattered_and_always_the_same() -> None:
    zipfian = Zipfian(1_000)
    counts = Counter(zipfian.scrambled(Random(seed)) for seed in range(500))
    most = counts.most_common(1)[0][0]
    assert most == fnv_hash(0) % 1_000
    assert most not in (0, 999)


def test_the_latest_key_is_the_most_popular() -> None:
    chance, zipfian = Random(3), Zipfian(100)
    keys = Counter(zipfian.latest(500, chance) for _ in range(5_000))
    assert keys.most_common(1)[0][0] == 500
    assert min(keys) > 400
    assert Zipfian(100).latest(0, Random(4)) == 0


def test_a_hash_is_that_of_fnv() -> None:
    """Of eight zero bytes, worked out by hand: the offset, eight times multiplied by the prime."""
    assert fnv_hash(0) == 0xCBF29CE484222325 * pow(1099511628211, 8, 1 << 64) % (1 << 64)
    assert fnv_hash(1) != fnv_hash(256)


class Table:
    """An engine in memory, which notes what is asked of it."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()

    def put(self, entries: dict[str, bytes]) -> None:
        self.calls["put"] += 1
        self.entries |= entries

    def get(self, key: str) -> bytes | None:
        self.calls["get"] += 1
        return self.entries.get(key)

    def scan(self, start: str, count: int) -> int:
        assert start in self.entries
        assert 1 <= count <= workloads.YCSB_MAX_SCAN
        self.calls["scan"] += 1
        return count


@pytest.mark.parametrize("mix", workloads.YCSB, ids=lambda mix: mix.name)
def test_a_mix_does_its_operations_in_its_parts(mix: workloads.Mix) -> None:
    table = Table()
    mixer = Mixer(table, mix.name, 1_500, lambda number: b"%d" % number)  # type: ignore[arg-type]
    mixer.load()
    assert set(table.entries) == {key_name(number) for number in range(1_500)}
    table.calls.clear()
    turns = 2_000
    assert sum(mixer.operation(0, turn) for turn in range(turns)) == turns
    writes = mix.update + mix.insert + mix.read_modify_write
    assert table.calls["put"] / turns == pytest.approx(writes, abs=0.05)
    assert table.calls["get"] / turns == pytest.approx(mix.read + mix.read_modify_write, abs=0.05)
    assert table.calls["scan"] / turns == pytest.approx(mix.scan, abs=0.05)
    assert (len(table.entries) > 1_500) is bool(mix.insert)
