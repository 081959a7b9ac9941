"""The content: names of bytes that stand beside the log, in claim files. Its reads, its changes, its part in a transaction."""
