"""Which tests a run takes: sample and rest together are all, and the seed says which is which."""

from __future__ import annotations

import pytest

from tests.support.selection import left_out, share_of, variants_left_out

FEW = [f"tests/few/test_{file}.py::test_{number}" for file in "ab" for number in range(5)]
MANY = [
    f"tests/many/{folder}/test_{file}.py::test_{number}" for folder in "ab" for file in "cdefg" for number in range(3)
]
LONG = FEW + MANY


def taken(part: str, seed: int) -> set[str]:
    return set(LONG) - left_out(LONG, part, seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_sample_and_rest_are_all_and_share_nothing(seed: int) -> None:
    sample, rest = taken("sample", seed), taken("rest", seed)
    assert sample | rest == taken("all", seed) == set(LONG)
    assert not sample & rest
    assert [len(sample & set(kind)) for kind in (FEW, MANY)] == [1, 1]


def test_the_same_seed_takes_the_same_and_every_test_is_taken_by_some() -> None:
    assert taken("sample", 7) == taken("sample", 7)
    assert set().union(*(taken("sample", seed) for seed in range(300))) == set(LONG)


def test_the_longest_are_in_no_sample_and_in_the_rest() -> None:
    longest = set(MANY[:-1])
    for seed in range(20):
        sample, rest = (set(LONG) - left_out(LONG, part, seed, longest) for part in ("sample", "rest"))
        assert not sample & longest
        assert sample >= {MANY[-1]}
        assert rest == set(LONG) - sample


def test_runs_whose_seeds_follow_one_another_take_each_test_once() -> None:
    shares = [share_of(LONG, 4, seed) for seed in range(9, 13)]
    assert sorted(name for share in shares for name in share) == sorted(LONG)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert share_of(LONG, 1, 9) == set(LONG)


def test_of_the_variants_of_each_test_as_many_are_taken_as_it_says() -> None:
    two = {f"tests/a.py::test_a[{number}]": 2 for number in range(7)}
    one = {f"tests/a.py::test_b[{number}]": 1 for number in range(3)}
    all_of_it = {"tests/a.py::test_c[only]": 4}
    for seed in range(20):
        taken = {*two, *one, *all_of_it} - variants_left_out(two | one | all_of_it, seed)
        assert [len(taken & set(kind)) for kind in (two, one, all_of_it)] == [2, 1, 1]
        assert variants_left_out(two | one, seed) == variants_left_out(one | two, seed)
    assert not set.intersection(*(variants_left_out(two, seed) for seed in range(50)))
