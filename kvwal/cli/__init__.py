"""Command line of kvwal. `main` loads little and answers a plain `kvwal get` by itself; `app` holds every command."""
