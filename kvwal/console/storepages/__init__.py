"""The pages about the store itself: businesses, keys, SQL, queues, contents, lineage of data sets, and operations."""
