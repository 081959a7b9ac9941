"""The past and the changes of a business of a cluster: what members answer from their logs and the archive."""
