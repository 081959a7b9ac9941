"""Items of a queue that can be taken: those in memory, in order, and those that only the files of the log have."""
