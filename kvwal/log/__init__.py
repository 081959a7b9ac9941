"""Bytes to durable entries: what a segment is (`format`), what it is called (`names`), how it is written, read and recovered.

The data's way: `ring` → `writer` → `appender` → `segment` → the disk; back through `reader` and `recovery`.
"""
