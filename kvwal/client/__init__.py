"""A client of the cluster: the same `Map` as embedded, over Hazelcast's own client.

`wire` turns words of kvwal (a class and bytes) into Hazelcast's serialized form and back, `link` is the connection, `memory`
and `business` are what an embedded store has as its memory and its log. Nothing of Hazelcast is loaded until `connect`.
"""
