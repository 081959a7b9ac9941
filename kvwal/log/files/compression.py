"""Compression of the blocks of a snapshot: zstd, one frame for each block (docs/decisions/0062-compressed-snapshots.md)."""

from __future__ import annotations

from typing import Any

_LEVEL = 1
"""zstd's level. On JSON the higher ones up to 9 take longer, and are no smaller."""
_LEAST_BYTES = 4 << 10
"""A shorter payload is not compressed: it would save less than a block of the disk."""
_LEAST_GAIN = 8
"""A payload is compressed only if that saves one part in so many: else reading it would cost time and save nothing."""


def compress(payload: bytes) -> bytes | None:
    """The payload as a frame, which says its size; None if that would not be worth it."""
    if len(payload) < _LEAST_BYTES:
        return None
    frame: bytes = _zstd().ZstdCompressor(level=_LEVEL).compress(payload)
    return frame if len(frame) <= len(payload) - len(payload) // _LEAST_GAIN else None


def decompress(frame: bytes, most: int) -> bytes | None:
    """The payload of a frame. None if the frame is damaged, is not all there is, or does not say a size of 1 to `most` bytes.

    Nothing is allocated for a size that is too large.
    """
    zstd = _zstd()
    try:
        if not 0 < zstd.frame_content_size(frame) <= most:
            return None
        payload: bytes = zstd.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstd.ZstdError:
        return None
    return payload


def _zstd() -> Any:
    import zstandard  # late: it takes some milliseconds, which `kvwal get` spends only if there is such a snapshot

    return zstandard
