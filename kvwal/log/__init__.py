"""The write-ahead log: writing, reading, recovery and checkpoints. `files` has the formats of its files.

Writes go `ring` → `writer` → `appender` → `files.segment` → disk; they come back through `reader` and `recovery`.
"""
