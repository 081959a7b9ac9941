"""The projection of Spark's events: events become records, one module for each subject."""
