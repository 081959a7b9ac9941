"""Bases: the merge of all nodes of a business up to a position in each log, kept beside the objects to make reads shorter."""
