"""SQL executions rebuilt from their events: plan graphs, and metrics as Spark writes them."""
