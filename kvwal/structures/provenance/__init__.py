"""Provenance: an event for each change of a business's maps and queues, in the transaction of the change. No I/O."""
