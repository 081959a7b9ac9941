"""The nodes of one root: commands that work on each of them, one after the other."""
