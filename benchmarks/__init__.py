"""What kvwal reaches, each figure beside a limit measured in the same run. `make bench` runs all of it."""
