"""One file per question. Each has QUESTION, and `measure(run)` that answers it with rows."""
