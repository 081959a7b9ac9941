"""A member of the cluster: Hazelcast's memory in this process, and a log of kvwal under it.

Every change that reaches a durable map, from whatever client, is in this node's log before it is in anybody's memory. `java/`
is the glue inside Hazelcast, `glue` takes batches from it to the log, `recover` brings them back, `service` runs it all.
"""
