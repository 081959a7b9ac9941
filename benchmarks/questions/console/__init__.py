"""Questions about the console: when it answers, how long a page takes, and how far it is behind."""
