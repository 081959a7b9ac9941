"""Queues of a cluster: the requests of clients, and what the member that decides on the queues of a business knows of them."""
