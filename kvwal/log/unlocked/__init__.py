"""Reading of segments without the log's lock, also while their writer writes to them."""
