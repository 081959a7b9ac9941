"""Data structures on the log: a folder for each (`map`), and what they share. No I/O."""
