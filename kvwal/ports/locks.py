"""The door to locks between threads. Apart from `tasks`, because those who only read must not wait for asyncio to load."""

from __future__ import annotations

import threading

Lock = threading.Lock

Semaphore = threading.Semaphore
"""A number of places that threads take and give back."""
