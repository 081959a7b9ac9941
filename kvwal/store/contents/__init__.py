"""Contents of an embedded store: where their bytes are, and the work of the background on them."""
