"""What rewrites or removes objects: compaction, tombstones, destroyed businesses."""
