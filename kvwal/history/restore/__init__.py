"""Whole roots: a restore from the archive alone, and a backup by links and copies."""
