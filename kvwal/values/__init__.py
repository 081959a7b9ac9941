"""Large values of maps and queues: written beside the log before their entries, and read where callers ask for the value."""
