"""Queues of a cluster: one member decides on the queues of a business, and answers the requests of clients for them."""
