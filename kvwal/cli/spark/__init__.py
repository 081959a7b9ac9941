"""The commands on Spark job metadata: submit, record, jobs, prune."""
