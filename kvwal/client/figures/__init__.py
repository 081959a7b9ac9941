"""Figures that all members of a cluster tell a client."""
