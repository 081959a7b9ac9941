"""Data that `kvwal put`, `import` and `export` read and write: values, rows of files, lines of an export."""
