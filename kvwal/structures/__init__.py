"""What entries mean: the latest value of each key (`state`), and the map that callers see (`map`). No file is touched here."""
