"""Networks that fail. A package, so that one cluster serves all files and ends with them."""
