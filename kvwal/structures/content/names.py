"""Names of contents, their attributes, and the entries that they make."""

from __future__ import annotations

from collections.abc import Mapping

from kvwal.codecs import Codecs
from kvwal.content.claim import VALUE_CLASS, Claim
from kvwal.entry import Entry
from kvwal.errors import CodecError, InvalidName, TooLarge, WrongType
from kvwal.key_class import CONTENT
from kvwal_archive.layout import check_name

MOST_NAME = 1024
"""The most bytes of the name of a content."""
MOST_ATTRIBUTES = 64 << 10
"""The most bytes of the names and values of a content's attributes together."""
_KEY_CODEC = "str"


def content_structure(name: str) -> str:
    """The structure of the contents `name` of a business; its own ones have no name. Raises `InvalidName`."""
    return f"{CONTENT}/{check_name('content', name)}" if name else CONTENT


def contents_named(structure: str) -> str:
    """The name of the contents of a structure; empty for a business's own."""
    return structure.partition("/")[2]


def key_class_of(structure: str) -> str:
    """The class of the entries of a structure of contents."""
    return f"{structure}:{_KEY_CODEC}"


def key_of(codecs: Codecs, name: object) -> bytes:
    """The key of a content. Raises `InvalidName`, `WrongType`."""
    if not isinstance(name, str):
        raise WrongType(f"the name of a content is text, not {type(name).__name__}: {name!r}.", hint="Give a str.")
    if not name:
        raise InvalidName("the name of a content is empty.", hint="Give it a name.")
    if "\0" in name:
        raise InvalidName(f"the name of a content holds a zero character: {name[:40]!r}.", hint="Choose another name.")
    key = codecs.encode_key(name)[0]
    if len(key) > MOST_NAME:
        raise InvalidName(
            f"the name of a content has {len(key):,} bytes; {MOST_NAME:,} are allowed: {name[:40]!r}….",
            hint="Choose a shorter name, and keep the rest in its attributes.",
        )
    return key


def checked_attributes(attributes: Mapping[str, str] | None) -> dict[str, str]:
    """Attributes as a dict of text. Raises `WrongType`, `TooLarge`."""
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise WrongType(f"attributes={attributes!r} are no mapping.", hint="Give a dict of text.")
    for part in (part for pair in attributes.items() for part in pair):
        if not isinstance(part, str):
            raise WrongType(f"an attribute has {part!r}, which is no text.", hint="Give a dict of text.")
    try:
        size = sum(len(part.encode()) for pair in attributes.items() for part in pair)
    except UnicodeEncodeError as error:
        raise CodecError(f"an attribute holds text that is not Unicode ({error}); nothing was written.") from error
    if size > MOST_ATTRIBUTES:
        raise TooLarge(
            f"the attributes of a content have {size:,} bytes; {MOST_ATTRIBUTES:,} are allowed; nothing was written.",
            hint="Keep what is large in a content of its own.",
        )
    return dict(attributes)


def bytes_of(data: object) -> bytes:
    """The bytes of a new content, or of a part of it. `WrongType` for what is no buffer: text, or a number."""
    if type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))  # type: ignore[arg-type]  # what is no buffer raises
    except TypeError as error:
        raise WrongType(
            f"a content is bytes, not {type(data).__name__}; nothing was written.", hint="Give bytes: text.encode()."
        ) from error


def put_entry(key_class: str, key: bytes, claim: Claim) -> Entry:
    """The entry that gives a name to the bytes of a claim."""
    return Entry(key, key_class, claim.value(), VALUE_CLASS, False, 0)


def delete_entry(key_class: str, key: bytes) -> Entry:
    """The entry that ends a name."""
    return Entry(key, key_class, b"", "", True, 0)
