"""Maintenance of the archive: compaction, removal of tombstones, removal of destroyed maps."""
