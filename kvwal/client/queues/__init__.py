"""Queues of a cluster, for clients: the queue of an embedded store, by requests to the member that decides on its items."""
