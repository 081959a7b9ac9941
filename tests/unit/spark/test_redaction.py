"""What is secret never reaches a record: by the name of a setting, by its form, and by the application's own rules."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.spark import records, redaction
from kvwal.spark.redaction import REDACTED, Redaction, applied, rules_of

SECRET = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        "-Xmx1g -Dpassword=hunter2 -Dother=1",
        "-Djavax.net.ssl.keyStorePassword=hunter2",
        "jdbc:postgresql://host/db?user=me&password=hunter2",
        "jdbc:mysql://me:hunter2@host/db",
        "jdbc:oracle:thin:scott/hunter2@//host:1521/x",
        "jdbc:sqlserver://host;user=me;password=hunter2;encrypt=true",
        "CREATE TABLE t USING jdbc OPTIONS (url 'jdbc:x', user 'me', password 'hunter2')",
        'OPTIONS (password "hunter2")',
        "OPTIONS ('password'='hunter2', dbtable='t')",
        "ALTER USER me IDENTIFIED BY 'hunter2'",
        "SELECT * FROM users WHERE password = 'hunter2'",
        "+- Filter (password#12 = hunter2)",
        "Relation [options: {dbtable=t, password=hunter2, url=jdbc:x}]",
        '{"password": "hunter2", "user": "me"}',
        "fs.s3a.access.key=hunter2",
        "spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net=hunter2",
        "https://me:hunter2@host/path",
        "Authorization: Bearer hunter2hunter2",
        "https://x.blob.core.windows.net/c?sv=1&sig=hunter2%2Fabc",
        "PASSWD:hunter2",
        "SELECT 1 WHERE password = 'a''hunter2'",
        r"OPTIONS (password 'a\'hunter2')",
        r'{"password": "a\"hunter2"}',
        "jdbc:mysql://me:a@hunter2@host/db",
        "app.py --password hunter2 --user me",
        "app.py --db-token=hunter2",
    ],
)
def test_a_secret_is_known_by_its_form(text: str) -> None:
    kept = records.cut(text)
    assert SECRET not in kept
    assert REDACTED in kept
    assert text[:3] == kept[:3], "the rest stays"


def test_what_is_no_secret_stays() -> None:
    for text in (
        "SELECT a, b FROM t WHERE a = 1", "Scan parquet [file:/data/in]", "Keyed by key: value#1", "count at job.py:3",
        "Exchange hashpartitioning(token#12L, 200)", "user@example.org", "s3://bucket/key=1/part-0",
    ):  # fmt: skip
        assert records.cut(text) == text


def test_a_key_of_amazon_is_known() -> None:
    assert records.cut("key AKIAABCDEFGHIJKLMNOP here") == f"key {REDACTED} here"


def test_a_secret_at_the_cut_is_redacted_before_it() -> None:
    text = "x" * 660 + "password=" + SECRET * 40 + "y" * 500
    assert SECRET not in records.cut(text)


def test_the_rules_of_the_application() -> None:
    settings = {
        "spark.redaction.regex": "(?i)colour", "spark.redaction.string.regex": "file:/[a-z]+",
        "spark.sql.redaction.string.regex": "blue", "spark.my.colour": "red", "spark.other": "a Colour", "spark.plain": "x",
    }  # fmt: skip
    rules = Redaction(settings)
    kept = rules.settings(settings)
    assert kept == {name: "x" if name == "spark.plain" else REDACTED for name in settings}
    with applied(rules):
        assert records.cut("read file:/data and blue") == f"read {REDACTED} and {REDACTED}"
    assert records.cut("read file:/data and blue") == "read file:/data and blue"
    assert rules_of(settings).keys() == {name for name in settings if "redaction" in name}


def test_a_pattern_that_cannot_be_read_hides_what_it_is_for() -> None:
    rules = Redaction({"spark.redaction.string.regex": "(unclosed"})
    assert rules.text("anything") == REDACTED
    assert Redaction({"spark.redaction.regex": "\\p{Alpha}+("}).settings({"a": "b"}) == {"a": REDACTED}


def test_by_default_settings_are_redacted_as_spark_does() -> None:
    kept = Redaction().settings(
        {"a.secret": "1", "b": "has a token in it", "c": "jdbc:mysql://u:p4ss@h/d", "d": "plain"}
    )
    assert kept == {"a.secret": REDACTED, "b": REDACTED, "c": f"jdbc:mysql://u:{REDACTED}@h/d", "d": "plain"}


@pytest.mark.parametrize(
    "piece",
    [
        "password",
        "a",
        "://",
        "password=",
        "'",
        "password '",
        "password=''",
        "--password ",
        "-",
        "jdbc:oracle:",
        "x.",
        " = ",
    ],
)
def test_a_long_text_costs_its_length_once(piece: str) -> None:
    """No text of a user makes a pattern slow: ten times the length costs about ten times as much."""

    def cost(length: int) -> float:
        text = piece * (length // len(piece))
        began = time.process_time()
        for _ in range(3):
            Redaction().text(text)
        return time.process_time() - began

    cost(1_000)
    assert cost(100_000) < 50 * max(cost(10_000), 0.003)


WORDS = st.sampled_from(
    [
        "secret", "PassWord", "passwd", "passphrase", "pwd", "Token", "credential", "access", "ACCOUNT", "private", "Api", "key",
        "Key", ".", "_", "-", "identified", " by", "://", "jdbc:Oracle", "Bearer", "sig", "=", "authorization", "akia", "ASIA",
        "ſecret", "toKen", "plan", " ", "\n", "x",
    ]
)  # fmt: skip


@given(st.lists(WORDS, max_size=6).map("".join))
def test_the_quick_look_misses_no_text_that_the_expression_finds(text: str) -> None:
    assert redaction.may_hold_secret(text) == (redaction._MAY_HOLD_SECRET.search(text) is not None)
