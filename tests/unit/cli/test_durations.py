"""One notation of durations, in every option that is one."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.cli.options import LEAST_DURATION, duration_parser
from kvwal.config import Interval, parse_duration
from kvwal.errors import ConfigError
from kvwal.node.config import parse_flush
from tests.support.cli import kvwal as run


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25), ("90s", 90), ("15m", 900), ("1h", 3_600), ("1.5h", 5_400), ("7d", 604_800), ("4w", 2_419_200),
        ("0s", 0), ("90", None), ("", None), ("h", None), ("-1h", None), ("1 h", None), ("1H", None), ("1y", None),
        ("1h30m", None), ("nan", None), ("infs", None), ("9" * 400 + "d", None), ("١s", None), ("101000w", None),
    ],
)  # fmt: skip
def test_a_duration_is_a_number_with_its_unit(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_a_plain_number_has_the_unit_that_it_always_had() -> None:
    assert duration_parser("--ttl")("1.5") == duration_parser("--ttl")("1500ms") == 1.5
    assert duration_parser("--ttl")(".5") == 0.5
    assert duration_parser("--ttl")("1e3") == 1_000
    assert duration_parser("--history", plain="d")("7") == 7 * 86_400
    assert duration_parser("--history", plain="d")("7h") == 7 * 3_600
    assert duration_parser("--grace")("0") == 0
    for option, typed in (("--keep", "90"), ("--keep", "soon")):
        with pytest.raises(
            ConfigError, match=f"{option} '{typed}' is no duration. Write a number with its unit: 90s, 15m"
        ):
            duration_parser(option, plain=None)(typed)
    for typed in ("0", "0s", "1e-9"):
        with pytest.raises(ConfigError, match=r"must be above 0\."):
            duration_parser("--every", least=LEAST_DURATION)(typed)


def test_a_flush_policy_is_a_duration_or_milliseconds() -> None:
    assert parse_flush("20") == parse_flush("20ms") == Interval(ms=20)
    assert parse_flush("1s") == Interval(ms=1_000)
    for typed in ("0s", "1x"):
        with pytest.raises(ConfigError, match="is no flush policy"):
            parse_flush(typed)


def test_options_take_durations(tmp_path: Path) -> None:
    """And each refuses what is none, with its name and exit code 2."""
    with kvwal.open(tmp_path) as store:
        store.map("b")["k"] = 1
        store.archive()
    assert run("put", tmp_path, "b", "short", "1", "--ttl", "1ms").code == 0
    assert run("put", tmp_path, "b", "long", "1", "--ttl", "1h").code == 0
    with kvwal.open(tmp_path, read_only=True) as store:
        entry = store.map("b").entry("long")
        assert entry is not None
        assert entry.expires - (entry.timestamp >> 16) == pytest.approx(3_600_000, abs=60_000)
        assert "short" not in store.map("b")
    assert run("archive", "rewrite", tmp_path, "--history", "12h").code == 0
    assert run("archive", "gc", tmp_path, "--grace", "15m").code == 0
    (tmp_path / "bench").mkdir()
    assert run("bench", tmp_path / "bench", "--seconds", "10ms", "--json").code == 0
    for option, typed in {
        "--ttl": ["put", tmp_path, "b", "k", "1"],
        "--history": ["archive", "rewrite", tmp_path],
        "--grace": ["archive", "gc", tmp_path],
        "--seconds": ["bench", tmp_path],
        "--every": ["record", tmp_path, tmp_path, "--follow"],
        "--keep": ["prune", tmp_path],
    }.items():
        for wrong in ("soon", "-1h", "nan"):
            ran = run(*typed, f"{option}={wrong}")
            assert (ran.code, f"{option} '{wrong}' is no duration." in ran.err) == (2, True), ran
