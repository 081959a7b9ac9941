"""Scrub: verification, diagnosis and repair of logs, as `kvwal log verify`, `kvwal log repair` and `kvwal doctor` do them."""
