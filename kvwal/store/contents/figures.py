"""Figures of contents that are stored, and of the claim files of their business."""

from __future__ import annotations

from typing import Any

from kvwal.store.contents.stored import StoredContents


def figures_of(contents: StoredContents) -> dict[str, Any]:
    """`contents` and `bytes` are those of one structure. The others are of all contents of the business: the number of its claim
    files, their bytes, and the share of these that the claims of the latest entries name; None without a claim file. `kept_bytes`
    are those of claim files that only history names.
    """
    number = size = 0
    for claim in contents.claims():
        number, size = number + 1, size + claim.length
    live = {claim.bytes_of for one in contents.of_business() for claim in one.claims()}
    sizes = contents.source.sizes()
    on_disk = sum(sizes.values())
    kept = contents.source.kept()
    return {
        "contents": number,
        "bytes": size,
        "claim_files": len(sizes),
        "disk_bytes": on_disk,
        "live_share": sum(length for _, _, length in live) / on_disk if on_disk else None,
        "kept_bytes": sum(size for file, size in sizes.items() if file in kept),
    }
