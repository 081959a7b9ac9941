"""The commands of `kvwal provenance`: search, lineage, replay."""
