"""Questions on the archive of one store: jobs of the archiver, and the restore."""
