"""Calls of the operating system behind the disk port: vectored I/O and locks."""
