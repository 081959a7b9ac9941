"""Events of a business in the files of its logs: written by checkpoints, searched and followed."""
