"""What is secret in settings, SQL text and plans is replaced before it is stored.

Spark's own rules, from the application's settings: `spark.redaction.regex` (a setting whose name or value it matches loses its
value), `spark.redaction.string.regex` and `spark.sql.redaction.string.regex` (what they match of a text is replaced). Spark
applies these to some of its texts only; here they hold for all. On top of them stand rules for what is a secret by its form:
`-Dpassword=…`, the user's part of a URL, the options of a data source, a bearer's token.

A pattern that Python cannot read (Java's has more) hides every text that it was meant for: rather too much than a secret.
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
_SPARKS_DEFAULT = "(?i)secret|password|token|access[.]?key"
_SECRET_NAME = re.compile(r"(?i)secret|passw|token|credential|(access|account|private|api)[._-]?key")

_WORD = r"(?:secret|passw(?:or)?d|passphrase|pwd|token|credential|(?:access|account|private|api)[._-]?key)"
_QUOTED = r"""(?:"[^"\n]{0,2000}"|'[^'\n]{0,2000}')"""
# A name, in a plan with its number (`password#12`), then its value. Every part is bounded: a long text costs its length once.
_NAMED = re.compile(
    rf"""(?i)({_WORD}[\w.\-]{{0,60}}(?:\#\d{{1,9}}L?)?["'`]?\s{{0,8}}(?:=>?|:)\s{{0,8}})({_QUOTED}|[^\s,;&"'`<>(){{}}\[\]|]+)"""
)
_OPTION = re.compile(rf"(?i)({_WORD}[\w.\-]{{0,60}}[\"'`]?\s{{1,8}}|\bidentified\s{{1,8}}by\s{{1,8}})({_QUOTED})")
_IN_URL = re.compile(r"(://[^\s/:@'\"]{0,200}:)([^\s/@'\"]{1,500})(?=@)")
_ORACLE = re.compile(r"(?i)(jdbc:oracle:\w{1,20}:[^\s/@'\"]{1,200}/)([^\s@'\"]{1,500})(?=@)")
_BEARER = re.compile(r"(?i)(\bbearer\s{1,8}|\bsig=|\bauthorization['\"]?\s{0,8}[:=]\s{0,8})([\w.~+/=%\-]{8,})")
_KEY_ID = re.compile(r"()\b((?:AKIA|ASIA)[0-9A-Z]{16})\b")
_FORMS = (_IN_URL, _ORACLE, _BEARER, _NAMED, _OPTION, _KEY_ID)
_WORTH = re.compile(rf"(?i){_WORD}|identified\s+by|://|jdbc:oracle|bearer|sig=|authorization|AKIA|ASIA")

_log = get_logger(__name__)


class Redaction:
    """The rules of one application."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are Spark's, of which the rules are taken."""
        given = settings or {}
        self._names = _compiled(NAMES_RULE, given.get(NAMES_RULE) or _SPARKS_DEFAULT)
        self._texts = [_compiled(name, given[name]) for name in TEXT_RULES if given.get(name)]

    def text(self, text: str) -> str:
        """`text` without its secrets."""
        for rule in self._texts:
            if rule is None:
                return REDACTED if text else text
            text = rule.sub(REDACTED, text)
        if _WORTH.search(text):
            for form in _FORMS:
                text = form.sub(rf"\1{REDACTED}", text)
        return text

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Settings without their secrets. The rules themselves count as such: what is secret may stand in one."""
        return {name[:MAX_NAME]: self._setting(name, value) for name, value in sorted(settings.items())[:MAX_SETTINGS]}

    def _setting(self, name: str, value: str) -> str:
        if _SECRET_NAME.search(name) or name == NAMES_RULE or name in TEXT_RULES:
            return REDACTED
        if self._names is None or self._names.search(name) or self._names.search(value):
            return REDACTED
        return self.text(value)


def rules_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that say what is secret, as they are."""
    return {name: settings[name] for name in (NAMES_RULE, *TEXT_RULES) if name in settings}


def _compiled(name: str, pattern: str) -> re.Pattern[str] | None:
    """None for a pattern that cannot be read. One that Spark redacted itself, in an event log, has done its work there."""
    if pattern == REDACTED:
        return re.compile(_SPARKS_DEFAULT if name == NAMES_RULE else re.escape(REDACTED))
    try:
        return re.compile(pattern)
    except re.error as error:
        _log.warning("a pattern of the application cannot be read here, and all that it may be meant for is redacted",
                     setting=name, error=str(error))  # fmt: skip
        return None


_BY_FORM = Redaction()
_rules: ContextVar[Redaction] = ContextVar("kvwal-redaction", default=_BY_FORM)


@contextmanager
def applied(rules: Redaction) -> Iterator[None]:
    """`redacted` goes by these rules meanwhile."""
    before = _rules.set(rules)
    try:
        yield
    finally:
        _rules.reset(before)


def redacted(text: str) -> str:
    """`text` without its secrets, by the rules of the application that is being read."""
    return _rules.get().text(text)
