"""Decisions of a cluster member: values in, verdict out. `kvwal/node/adapters` has an adapter to Hazelcast for each.

`membership` is the file in which each root remembers the members; `quorum` says which members may serve, `bootstrap` who is
missing before memory is filled, `archive_load` how it is filled from the archive, `clock_bounds` how far a member's clock may
run, `link_failures` which member goes when a network link is bad, and `rejoin` compares a returning member's log with memory.
"""
