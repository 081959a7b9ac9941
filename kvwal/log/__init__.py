"""Bytes to durable entries: how a log is written, read and recovered; `files` says what its files hold.

The data's way: `ring` → `writer` → `appender` → `files.segment` → the disk; back through `reader` and `recovery`.
"""
