"""The commands on the lineage of data sets: kvwal lineage, the events of OpenLineage in files, and kvwal console."""
