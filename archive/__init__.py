"""Segments of the log as sorted, immutable objects in a folder or a bucket, and the merge that reads them back."""
