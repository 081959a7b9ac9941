"""Files of a log: names, byte format, order, and how each kind of file is written."""
