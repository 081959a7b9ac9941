"""Reading a store without its locks: what every reader of a business answers, and figures of files."""
