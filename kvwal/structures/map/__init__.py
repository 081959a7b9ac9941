"""The map: what a put, a delete and a condition mean as entries, and the latest entry of each key in memory."""
