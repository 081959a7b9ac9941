"""Contents of a cluster for clients: bytes in the archive, names in the members' logs; for threads and for tasks."""
