"""Client of a running cluster: the `Map` of an embedded store, over Hazelcast's own client.

`wire` converts a class and bytes of kvwal to Hazelcast's serialized form and back. `link` is the connection. `memory` and
`cluster_business` take the places that memory and log have in an embedded store. Hazelcast's client is not loaded before
`connect` is called.
"""
