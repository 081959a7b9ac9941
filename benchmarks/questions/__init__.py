"""The questions, one module each: `QUESTION`, and `measure(run)` that returns the rows of the answer."""
