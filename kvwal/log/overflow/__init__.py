"""Overflow files: transactions that are too large for a block of a segment."""
