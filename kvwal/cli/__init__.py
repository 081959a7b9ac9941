"""The command line. `main` is light and answers a plain `kvwal get` by itself; `app` holds every command."""
