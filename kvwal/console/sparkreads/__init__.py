"""What the pages about Spark read: records of one application, the list of all, digests, and plans as graphs."""
