"""Requests for contents of a cluster: what a client needs to put bytes into the archive, and changes of names."""
