"""The benchmarks of kvwal: each figure stands beside a baseline measured in the same run. `make bench` runs all."""
