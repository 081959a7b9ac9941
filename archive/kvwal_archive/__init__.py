"""The archive: log segments as sorted, immutable objects in a folder or a bucket, and the merge that reads them."""
