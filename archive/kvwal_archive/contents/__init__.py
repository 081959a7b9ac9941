"""Contents in the archive: the claim files of a business, as objects that no node owns. Their put, their reads, their removal."""
