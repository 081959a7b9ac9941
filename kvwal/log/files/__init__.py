"""The files of a log: their names, bytes and order."""
