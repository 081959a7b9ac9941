"""Who goes when a link between members is cut: every member that hears enough of the others concludes the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

import pytest

from kvwal.cluster.link_failures import LinkReport, VerdictDebouncer, victims
from kvwal.cluster.quorum import first

THREE = ["oldest", "middle", "youngest"]
FIVE = ["a", "b", "c", "d", "e"]
LONG = 60.0


def seen(by: str, members: Sequence[str], cut: Iterable[tuple[str, str]], *, silent: float = LONG) -> list[LinkReport]:
    """The reports that one of them has when these links are cut, both ways, for so long: its own, and what those that it hears
    say of themselves and of those that they hear.
    """
    bad = {frozenset(pair) for pair in cut}

    def hears(one: str) -> set[str]:
        return {name for name in members if name == one or frozenset((name, one)) not in bad}

    known = {name for other in hears(by) for name in hears(other)}
    return [
        LinkReport(name, of, silent if frozenset((name, of)) in bad else 0.5, 0.0 if name == by else 0.8)
        for name in known
        for of in members
        if of != name
    ]


def judged(members: Sequence[str], cut: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """What each of them concludes."""
    links, quorum = list(cut), first(members)
    return {name: victims(name, members, quorum, seen(name, members, links)) for name in members}


@pytest.mark.parametrize("cut", list(combinations(THREE, 2)))
def test_of_two_that_do_not_hear_each_other_the_younger_goes(cut: tuple[str, str]) -> None:
    assert judged(THREE, [cut]) == {name: [cut[1]] for name in THREE}


@pytest.mark.parametrize("cut", list(permutations(THREE, 2)))
def test_it_is_enough_that_one_of_both_does_not_hear_the_other(cut: tuple[str, str]) -> None:
    deaf, unheard = cut
    (witness,) = set(THREE) - set(cut)
    reports = [
        LinkReport(by, of, LONG if (by, of) == (deaf, unheard) else 0.5, 0.5) for by, of in permutations(THREE, 2)
    ]
    younger = max(cut, key=THREE.index)
    assert victims(witness, THREE, first(THREE), reports) == [younger]


def test_only_the_oldest_member_that_hears_no_other_leaves() -> None:
    cut = [("oldest", "middle"), ("oldest", "youngest")]
    assert judged(THREE, cut) == {"oldest": ["oldest"], "middle": [], "youngest": []}


def test_a_younger_member_without_links_is_left_to_hazelcast() -> None:
    """All links may be cut: then the oldest alone ends, and the others can be a majority when they meet."""
    cut = [("oldest", "youngest"), ("middle", "youngest")]
    assert judged(THREE, cut) == {name: [] for name in THREE}


@pytest.mark.parametrize("deaf", ["middle", "youngest"])
def test_one_that_says_that_it_hears_nobody_goes_although_all_hear_it(deaf: str) -> None:
    reports = [LinkReport(by, of, LONG if by == deaf else 0.5, 0.5) for by, of in permutations(THREE, 2)]
    assert {name: victims(name, THREE, first(THREE), reports) for name in THREE if name != deaf} == {
        name: [deaf] for name in THREE if name != deaf
    }
    assert victims(deaf, THREE, first(THREE), reports) == [], "all links may be cut, for all it knows"


def test_no_member_leaves_where_the_remaining_ones_could_not_serve() -> None:
    assert judged(["one", "other"], [("one", "other")]) == {"one": [], "other": []}
    assert judged(FIVE, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")])["a"] == []
    expected = first([*FIVE, "killed"])
    assert victims("a", FIVE[:3], expected, seen("a", FIVE[:3], [("a", "b")])) == []


def test_the_largest_group_that_hears_each_other_stays() -> None:
    cut = [("a", "b"), ("a", "c")]
    assert judged(FIVE, cut) == {name: ["a"] for name in FIVE}


def test_a_large_cluster_with_few_bad_links_judges_and_with_many_leaves_it_to_hazelcast() -> None:
    many = [f"{number:02}" for number in range(40)]
    assert judged(many, [("03", "30"), ("03", "31"), ("10", "20")])["05"] == ["03", "20"]
    assert judged(many, [(name, f"{int(name) + 20:02}") for name in many[:20]])["05"] == []


@pytest.mark.parametrize("silent", [3.5, 4.9])
def test_no_member_leaves_while_a_link_may_be_slow(silent: float) -> None:
    reports = seen("oldest", THREE, [("oldest", "middle")], silent=silent)
    assert victims("oldest", THREE, first(THREE), reports) == []


def test_no_member_leaves_while_the_witness_may_be_cut_off_too() -> None:
    """The oldest one is cut off from both, and the other one has not noticed for as long."""
    reports = [
        LinkReport("youngest", "oldest", 5.2, 0.0),
        LinkReport("youngest", "middle", 0.5, 0.0),
        LinkReport("middle", "oldest", 4.6, 0.6),
        LinkReport("middle", "youngest", 0.5, 0.6),
    ]
    assert victims("youngest", THREE, first(THREE), reports) == []


def test_what_was_said_long_ago_is_no_witness() -> None:
    reports = [LinkReport("oldest", "middle", LONG, 0.0), LinkReport("oldest", "youngest", 0.5, 0.0)]
    old = [LinkReport("youngest", "middle", 0.5, 4.0), LinkReport("youngest", "oldest", 0.5, 4.0)]
    assert victims("oldest", THREE, first(THREE), [*reports, *old]) == []
    new = [LinkReport("youngest", "middle", 0.5, 1.0), LinkReport("youngest", "oldest", 0.5, 1.0)]
    assert victims("oldest", THREE, first(THREE), [*reports, *old, *new]) == ["middle"]


def test_all_members_choose_alike_for_every_cut_among_five() -> None:
    """Those who are to stay hear each other, and are more than half; whom none of them hears Hazelcast gives up in its time."""
    pairs = list(combinations(FIVE, 2))
    for count in range(1, 5):
        for cut in combinations(pairs, count):
            found = {tuple(going) for going in judged(FIVE, cut).values() if going}
            assert len(found) <= 1, cut
            for going in found:
                left = [name for name in FIVE if name not in going]
                silent = {
                    name for name in left if {(a, b) for a, b in combinations(left, 2) if name in (a, b)} <= set(cut)
                }
                stay = [name for name in left if name not in silent]
                assert len(stay) > len(FIVE) / 2
                assert not [pair for pair in cut if set(pair) <= set(stay)]


def test_a_verdict_counts_once_it_has_lasted() -> None:
    verdict = VerdictDebouncer()
    assert verdict.update(["a"], 10.0) == []
    assert verdict.update(["a"], 11.9) == []
    assert verdict.update(["b"], 12.0) == []
    assert verdict.update(["b"], 14.0) == ["b"]
    assert verdict.update([], 14.1) == []
