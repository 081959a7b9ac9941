"""Recording of a running driver: its event log goes to a spool, and from there into a store."""
