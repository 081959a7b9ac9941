"""Locations: the one word for where a store is. A folder, a cluster (`kvwal://host:port`), or an archive (`s3://…`)."""
