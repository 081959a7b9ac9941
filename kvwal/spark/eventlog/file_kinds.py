"""The kinds of files that may stand beside event logs, and that kvwal does not read. The first bytes of a file tell its kind."""

from __future__ import annotations

READ = "kvwal reads plain, gzip, zstd, lz4 and snappy event logs."
_KINDS = (
    (b"ZV", "is compressed with lzf"),
    (b"BZh", "is compressed with bzip2"),
    (b"\xfd7zXZ\x00", "is compressed with xz"),
    (b"\x04\x22\x4d\x18", "is compressed by the command lz4, in frames that Spark does not write"),
    (b"\xff\x06\x00\x00sNaPpY", "is compressed with snappy, in frames that Spark does not write"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive"),
    (b"PK\x03\x04", "is a zip or jar archive"),
    (b"PAR1", "is a Parquet file"),
    (b"ORC", "is an ORC file"),
    (b"Obj\x01", "is an Avro file"),
)
_TAR = slice(257, 262)


def told_kind(start: bytes) -> str:
    """What a file that begins so is, for the sentence that says why it is not read; empty for a kind that is not known."""
    if start[_TAR] == b"ustar":
        return "is a tar archive"
    return next((kind for magic, kind in _KINDS if start.startswith(magic)), "")
