"""Data structures on the log: the in-memory state of each key (`state`), and the map of synchronous callers (`map`). No I/O."""
