"""Containers: further folders for the claim files of a log, each on a disk of its own. Their list, their checks, their use."""
