"""The same tests on an embedded store and on a cluster. A package, so that one cluster serves all files and ends with them."""
