"""Checks of the bytes that stand beside a log, of contents and large values, and the repair of those of values."""
