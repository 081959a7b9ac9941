"""Questions that set kvwal beside its peers."""
