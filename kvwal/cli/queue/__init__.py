"""The commands of `kvwal queue`: list, put, take, browse, move, purge, options, stats."""
