"""The engines: each store of Python, or of a server, behind the same few calls."""
