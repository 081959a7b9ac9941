"""The nodes of one root: commands that work on each of them, and the merge of finished nodes into one."""
