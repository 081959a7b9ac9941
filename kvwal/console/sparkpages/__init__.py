"""The pages about Spark: applications, their jobs, stages and SQL executions, runs side by side, streams."""
