"""A cluster member: Hazelcast's memory in this process, and a log of kvwal under it.

Every change of a durable map is in this node's log before it is in any member's memory. `java/` has the classes that run inside
Hazelcast, `log_bridge` takes batches of changes from them to the log, `adapters` connects the decisions of `kvwal/cluster` to
Hazelcast, `requests` answers what clients and other members ask of this node's logs, and `service` runs it all.
"""
