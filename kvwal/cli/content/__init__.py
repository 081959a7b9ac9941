"""The commands of `kvwal content`: list, put, get, delete, stats, verify."""
