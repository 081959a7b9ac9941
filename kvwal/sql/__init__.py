"""SQL over the entries of a store: each business is a table, records of Spark have tables with typed columns."""
