"""Redaction: secrets in settings, SQL text and plans are replaced before a record is stored.

Spark's own rules come from the application's settings. `spark.redaction.regex` redacts the value of each setting whose name or
value it matches. `spark.redaction.string.regex` and `spark.sql.redaction.string.regex` redact their matches in a text. Spark
applies these rules to some of its texts only; kvwal applies them to all. Rules of kvwal redact secrets by their form as well:
`-Dpassword=…`, the password in a URL, the options of a data source, a bearer token.

Java has regular expressions that Python cannot compile. Such a rule redacts every text it applies to, so that no secret passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from kvwal.ports.logger import get_logger

REDACTED = "*********(redacted)"
MAX_SETTINGS = 600
MAX_NAME = 200
NAMES_RULE = "spark.redaction.regex"
TEXT_RULES = ("spark.redaction.string.regex", "spark.sql.redaction.string.regex")
_DEFAULT_NAMES_RULE = "(?i)secret|password|token|access[.]?key"
_SECRET_NAME = re.compile(r"(?i)secret|passw|token|credential|(access|account|private|api)[._-]?key")

_WORD = r"(?:secret|passw(?:or)?d|passphrase|pwd|token|credential|(?:access|account|private|api)[._-]?key)"
# A quotation mark inside has a backslash before it, or stands twice.
_QUOTED = r"""(?:"(?:[^"\\\n]|\\.|""){0,2000}"|'(?:[^'\\\n]|\\.|''){0,2000}')"""
# A name, then its value. In a plan a number follows the name: `password#12`. Every part is bounded, so the search is linear.
_NAMED = re.compile(
    rf"""(?i)({_WORD}[\w.\-]{{0,60}}(?:\#\d{{1,9}}L?)?["'`]?\s{{0,8}}(?:=>?|:)\s{{0,8}})({_QUOTED}|[^\s,;&"'`<>(){{}}\[\]|]+)"""
)
_OPTION = re.compile(rf"(?i)({_WORD}[\w.\-]{{0,60}}[\"'`]?\s{{1,8}}|\bidentified\s{{1,8}}by\s{{1,8}})({_QUOTED})")
_ARGUMENT = re.compile(rf"(?i)(--?[\w.\-]{{0,60}}{_WORD}[\w.\-]{{0,60}}\s{{1,8}})([^\s\-'\"][^\s]*)")
_IN_URL = re.compile(r"(://[^\s/:@'\"]{0,200}:)([^\s/'\"]{1,500})(?=@)")
_ORACLE = re.compile(r"(?i)(jdbc:oracle:\w{1,20}:[^\s/@'\"]{1,200}/)([^\s@'\"]{1,500})(?=@)")
_BEARER = re.compile(r"(?i)(\bbearer\s{1,8}|\bsig=|\bauthorization['\"]?\s{0,8}[:=]\s{0,8})([\w.~+/=%\-]{8,})")
_KEY_ID = re.compile(r"()\b((?:AKIA|ASIA)[0-9A-Z]{16})\b")
_SECRET_FORMS = (_IN_URL, _ORACLE, _BEARER, _NAMED, _OPTION, _ARGUMENT, _KEY_ID)
# A quick test: a text without a match has none of the forms.
_MAY_HOLD_SECRET = re.compile(rf"(?i){_WORD}|identified\s+by|://|jdbc:oracle|bearer|sig=|authorization|AKIA|ASIA")
# A quicker one before it, for ASCII text in lower case: each match of the expression has one of these, or a key and its kind.
_HINTS = (
    "secret", "passw", "passphrase", "pwd", "token", "credential", "identified", "://", "jdbc:oracle", "bearer", "sig=",
    "authorization", "akia", "asia",
)  # fmt: skip
_KINDS_OF_KEYS = ("access", "account", "private", "api")


class Redaction:
    """The redaction rules of one application."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Take the rules from Spark's `settings`; without settings, Spark's default rules hold."""
        given = settings or {}
        self._names = _compiled(NAMES_RULE, given.get(NAMES_RULE) or _DEFAULT_NAMES_RULE)
        self._texts = [_compiled(name, given[name]) for name in TEXT_RULES if given.get(name)]

    def text(self, text: str) -> str:
        """`text` without its secrets."""
        for rule in self._texts:
            if rule is None:
                return REDACTED if text else text
            text = rule.sub(REDACTED, text)
        if may_hold_secret(text):
            for form in _SECRET_FORMS:
                text = form.sub(rf"\1{REDACTED}", text)
        return text

    def settings(self, settings: Mapping[str, str], limit: int | None = MAX_SETTINGS) -> dict[str, str]:
        """The first `limit` settings without their secrets. The rules are redacted too, since a rule may name a secret."""
        return {name[:MAX_NAME]: self._setting(name, value) for name, value in sorted(settings.items())[:limit]}

    def _setting(self, name: str, value: str) -> str:
        if _SECRET_NAME.search(name) or name == NAMES_RULE or name in TEXT_RULES:
            return REDACTED
        if self._names is None or self._names.search(name) or self._names.search(value):
            return REDACTED
        return self.text(value)


def may_hold_secret(text: str) -> bool:
    """Whether a text may hold a secret of a known form; most texts are found to hold none without a regular expression."""
    if text.isascii():
        lower = text.lower()
        is_hinted = any(hint in lower for hint in _HINTS)
        if not is_hinted and not ("key" in lower and any(kind in lower for kind in _KINDS_OF_KEYS)):
            return False
    return _MAY_HOLD_SECRET.search(text) is not None


def is_secret_name(name: str) -> bool:
    """Whether a setting, an option or a field of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def rules_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that hold redaction rules, unredacted."""
    return {name: settings[name] for name in (NAMES_RULE, *TEXT_RULES) if name in settings}


def _compiled(name: str, pattern: str) -> re.Pattern[str] | None:
    """The compiled rule; None for a rule that Python cannot compile.

    Spark redacts its own rules in an event log, and has applied them there: then the default rules hold.
    """
    if pattern == REDACTED:
        return re.compile(_DEFAULT_NAMES_RULE if name == NAMES_RULE else re.escape(REDACTED))
    try:
        return re.compile(pattern)
    except re.error as error:
        get_logger(__name__).warning(
            "a redaction rule of the application cannot be compiled: every text it applies to is redacted",
            setting=name, error=str(error),
        )  # fmt: skip
        return None


_DEFAULT = Redaction()
_current: ContextVar[Redaction] = ContextVar("kvwal-redaction", default=_DEFAULT)


@contextmanager
def applied(rules: Redaction) -> Iterator[None]:
    """Let `redacted` use these rules inside the `with` block."""
    before = _current.set(rules)
    try:
        yield
    finally:
        _current.reset(before)


def redacted(text: str) -> str:
    """`text` without its secrets, by the rules of the application whose log is read."""
    return _current.get().text(text)
