"""Spark's events with every field that its REST API shows, the metrics of tasks, and moments as Spark writes them."""
