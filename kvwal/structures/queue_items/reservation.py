"""Reservations: the items that one taker was handed out."""

from __future__ import annotations

from kvwal.entry import Entry


class Reservation:
    """Items that one taker was handed out, and what is known of their deliveries.

    Once it is `over`, it is handed out nothing more: its taker does not wait any more.
    """

    __slots__ = ("deliveries", "entries", "over")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.deliveries: list[Entry] = []
        self.over = False
